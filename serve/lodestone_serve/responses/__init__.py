"""What every HTTP answer is made of: problem details, pages, selected members and entity tags."""
