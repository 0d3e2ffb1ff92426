"""Sector files: where they are, what is in them, whether they belong together, and the vanilla proofs they give.

    locate ─► files ─► trees ─► preflight ─► vanilla (make | decode) ─► check

    sector = locate.find("DIR/s-t01000-1")              # or a bare name and storage folders; opens nothing
    checked = preflight.preflight(sector, {"comm_d_new": …}, hash)  # sizes, trees, labels; all problems at once
    proof = preflight.make_vanilla(checked, partition)  # PartitionProof; or, from bytes or JSON:
    proofs, beside = encoding.read(data, size, path)        # `beside`: the commitments of a request object, as hex
    vanilla.check(proof, partition, commitments, size, hash, path)      # CuzkError names partition and challenge

`hash` maps words uint64[n, arity, 4] to uint64[n, 4], for the arities of tree R; by default it is
protocol.poseidon.poseidon_batch.
Files are opened read-only and read by position: nothing is mapped or written, and no path inside them is followed.

What other proofs share: `trees` (any tree of the protocol: root, leaves and siblings of many leaves at once),
`vanilla.Paths`, `vanilla.positions` and `vanilla.climb`, and in `encoding` the MerkleProof record (`merkle_type`,
`write_paths`, `read_paths`).
"""
