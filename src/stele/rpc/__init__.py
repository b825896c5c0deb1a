"""One framed RPC for every role: see `docs/formats/rpc.md` for the bytes."""
