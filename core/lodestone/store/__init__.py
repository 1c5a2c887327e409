"""Where vectors are kept and searched: the contract and its two adapters."""
