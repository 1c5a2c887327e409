"""Tools for remote services that cost time and money: an HTTP client, its guards and keys, a circuit breaker and a budget."""
