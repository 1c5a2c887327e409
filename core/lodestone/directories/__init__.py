"""How are the directories that a home indexes managed, kept up to date and indexed in the background?"""
