"""Traffic control: admission, rate limits, idempotency, request guards and the proxy."""
