"""A slice in a worker, from task to receipt: in which order its work is done, the work itself, and its state meanwhile.

- `flow` is the order: what starts when, how much is held between two stages, and how each slice ends.
- `work` is the work: plan, fetch, decode, embed, write; each is one call on plain values, without a lock and without an order.
- `state` is the state of one slice in flight: what is left to do, what is done, and the receipt that it leads to.

`pipeline` joins them for one worker, over the threads of `pools` and within the sizes of `limits`. Driver and executors, which
hand out slices and record receipts, are in `lodestone.indexing.embed`.
"""
