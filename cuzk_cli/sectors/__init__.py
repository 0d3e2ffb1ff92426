"""Sector files: where they are, what is in them, whether they belong together, and the vanilla proofs they give.

    locate ─► files ─► trees ─► preflight ─► vanilla (make | decode) ─► check

`locate.find` gives a Sector, `preflight.preflight` its Checked contents, `vanilla.make` or `encoding.decode` the
PartitionProofs, `vanilla.check` refuses those that do not hold.
"""
