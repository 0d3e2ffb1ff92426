"""A prover that stays: parameters, compiled functions and processes are kept warm between jobs.

    client ─► server ─► service (curio's calls) ─┐
                        control (our own calls) ─┴► requests ─► jobs ─► prove.prover ─► results
    cli/   ─► client

Only `server` and below need the prover; `client`, `proto` and `address` start in a tenth of a second.
"""
