"""The protocol's constants: sector sizes, tree shapes, partitions, challenges, registered proofs, parameter files.

Sources (rust-fil-proofs 19.1.0 unless it says otherwise): storage-proofs-update/src/constants.rs, filecoin-proofs/src/
{constants,parameters}.rs, storage-proofs-core/src/{parameter_cache,merkle/tree}.rs, parameters.json; go-state-types
abi/sector.go; rust-filecoin-proofs-api src/registry.rs.
"""
from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from ..errors import Exit, fail

NODE_BYTES = 32
PROOF_BYTES = 192           # of one partition: A 48, B 96, C 48, compressed (bellperson groth16/proof.rs)
PARAMETER_VERSION = 28
KINDS = ("snap", "winning", "window", "porep")

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30


class Size(NamedTuple):
    """What a sector size implies."""

    name: str               # "32GiB"
    bytes: int
    tree_r: tuple           # (base, sub, top) arities of tree R, 0 for none
    registered: int | None  # offset in each block of registered proofs; None: a size for tests only

    @property
    def nodes(self) -> int:
        return self.bytes // NODE_BYTES

    @property
    def log_nodes(self) -> int:
        return self.nodes.bit_length() - 1

    @property
    def base_trees(self) -> int:
        """Base trees of tree R, each in a file of its own."""
        return max(self.tree_r[1], 1) * max(self.tree_r[2], 1)

    @property
    def arities(self) -> tuple:
        """Arities of tree R's levels, leaves first."""
        base_log = self.log_nodes - (self.base_trees.bit_length() - 1)
        return (8,) * (base_log // 3) + tuple(a for a in self.tree_r[1:] if a)

    @property
    def tree_name(self) -> str:
        return "merkletree-poseidon_hasher-{}-{}-{}".format(*self.tree_r)

    @property
    def layers(self) -> int:
        """PoRep layers."""
        return 11 if self.bytes >= 32 * _GIB else 2

    @property
    def porep_partitions(self) -> int:
        return 10 if self.bytes >= 32 * _GIB else 1

    @property
    def porep_challenges(self) -> int:
        """Per partition."""
        return 18 if self.bytes >= 32 * _GIB else 2

    @property
    def porep_ni_partitions(self) -> int:
        """Of a non-interactive PoRep, with as many challenges each."""
        return 126 if self.bytes >= 32 * _GIB else 13

    @property
    def window_sectors(self) -> int:
        """Sectors of a WindowPoSt partition."""
        return {32 * _GIB: 2349, 64 * _GIB: 2300}.get(self.bytes, 2)

    @property
    def snap_partitions(self) -> int:
        return 1 if self.bytes <= 8 * _KIB else 2 if self.bytes <= 32 * _KIB else 4 if self.bytes <= 16 * _MIB else 16

    @property
    def snap_challenges(self) -> int:
        """Per partition."""
        return 10 if self.bytes <= 16 * _MIB else 86

    @property
    def snap_hs(self) -> tuple:
        """Heights that h_select chooses among."""
        return (1,) * 6 if self.bytes <= 32 * _KIB else (7, 8, 9, 10, 11, 12)

    @property
    def snap_h(self) -> int:
        """The height that sectors are encoded with."""
        return self.snap_hs[3]

    @property
    def snap_apex_leaves(self) -> int:
        """Per partition."""
        return 8 if self.bytes <= 8 * _KIB else 128

    def snap_h_select(self, h: int | None = None) -> int:
        """2^(index of h among `snap_hs`)."""
        return 1 << self.snap_hs.index(self.snap_h if h is None else h)


SIZES = {size.bytes: size for size in (
    Size("2KiB", 2 * _KIB, (8, 0, 0), 0),
    Size("4KiB", 4 * _KIB, (8, 2, 0), None),
    Size("16KiB", 16 * _KIB, (8, 8, 0), None),
    Size("32KiB", 32 * _KIB, (8, 8, 2), None),
    Size("8MiB", 8 * _MIB, (8, 0, 0), 1),
    Size("16MiB", 16 * _MIB, (8, 2, 0), None),
    Size("512MiB", 512 * _MIB, (8, 0, 0), 2),
    Size("32GiB", 32 * _GIB, (8, 8, 0), 3),
    Size("64GiB", 64 * _GIB, (8, 8, 2), 4),
)}
DRG_PARENTS = 6
EXPANDER_PARENTS = 8
LABEL_PARENTS = 37      # that a label hashes, its parents repeated
WINNING_CHALLENGES = 66
WINDOW_CHALLENGES = 10

V1, V1_1 = "V1", "V1_1"
SYNTHETIC, NON_INTERACTIVE = "V1_1_Feat_SyntheticPoRep", "V1_2_Feat_NonInteractivePoRep"
# first registered proof of each block; the offset is Size.registered
REGISTERED = {
    "snap": {"V1": 0},
    "porep": {V1: 0, V1_1: 5, SYNTHETIC: 10, NON_INTERACTIVE: 15},
    "winning": {"V1": 0},
    "window": {"V1": 5, "V1_1": 10},
}

class Registered(NamedTuple):
    """A registered proof: what its number or name stands for."""

    kind: str
    version: str            # a key of REGISTERED[kind]
    size: Size

    @property
    def number(self) -> int:
        return REGISTERED[self.kind][self.version] + self.size.registered

    @property
    def porep_id(self) -> bytes:
        """What the reference makes of the number, with nonce 0 (rust-filecoin-proofs-api src/registry.rs)."""
        return self.number.to_bytes(8, "little").ljust(32, b"\0")


# versions as go-state-types, rust-filecoin-proofs-api and users write them
_VERSIONS = {
    "porep": {"V1": V1, "V1_1": V1_1, "V1P1": V1_1, "V1_1_FEAT_SYNTHETICPOREP": SYNTHETIC,
              "V1_2_FEAT_NONINTERACTIVEPOREP": NON_INTERACTIVE, "V1_2_FEAT_NIPOREP": NON_INTERACTIVE},
    "window": {"V1": "V1", "V1_1": "V1_1", "V1P1": "V1_1", "V1_2": "V1_1"},
    "winning": {"V1": "V1"},
    "snap": {"V1": "V1"},
}


def parse_registered(text: str, kind: str, option: str = "--registered-proof") -> Registered:
    """"StackedDrgWindow32GiBV1_1", "Window32GiBV1P1", "13" -> what it stands for. Raises CuzkError (USAGE)."""
    def refused(actual: str):
        numbers = [str(first + size.registered) for first in REGISTERED[kind].values() for size in SIZES.values()
                   if size.registered is not None]
        return fail(Exit.USAGE, "read the registered proof", option,
                    f"a name such as StackedDrg{'' if kind in ('porep', 'snap') else kind.capitalize()}32GiBV1, or a "
                    f"number from {numbers[0]} to {numbers[-1]}", actual)

    text = text.strip()
    if re.fullmatch("[0-9]{1,3}", text):
        for version, first in REGISTERED[kind].items():
            for size in SIZES.values():
                if size.registered is not None and first + size.registered == int(text):
                    return Registered(kind, version, size)
        raise refused(text)
    match = re.fullmatch(r"(?:Registered[a-z]*_?)?(?:StackedDrg)?(Winning|Window|EmptySectorUpdate)?"
                         r"(2KiB|8MiB|512MiB|32GiB|64GiB)(V[0-9A-Z_]+)", text, re.IGNORECASE)
    said = (match[1] or "").lower() if match else ""
    if match is None or said not in ("", {"snap": "emptysectorupdate"}.get(kind, kind)):
        raise refused(repr(text))
    version = _VERSIONS[kind].get(match[3].upper())
    if version is None:
        raise refused(repr(text))
    return Registered(kind, version, next(s for s in SIZES.values() if s.name.lower() == match[2].lower()))


_UNITS = {"": 1, "b": 1, "k": _KIB, "kib": _KIB, "m": _MIB, "mib": _MIB, "g": _GIB, "gib": _GIB,
          "kb": _KIB, "mb": _MIB, "gb": _GIB}


def parse_size(text: str) -> Size:
    """"32GiB", "32g", "2k", "2048", "snap-32g" -> Size. Raises CuzkError (USAGE)."""
    match = re.fullmatch(r"(?:[a-z-]+-)?([0-9]{1,12})\s*([a-z]*)", text.strip().lower())
    size = None
    if match and match[2] in _UNITS:
        size = SIZES.get(int(match[1]) * _UNITS[match[2]])
    if size is None:
        raise fail(Exit.USAGE, "read the sector size", "--sector-size", " ".join(s.name for s in SIZES.values()), repr(text))
    return size


def identifier(kind: str, size: Size) -> str:
    """The string whose SHA-256 names the parameter files (`identifier` of each PublicParams)."""
    if kind == "snap":
        return f"empty_sector_update::PublicParams{{ sector_nodes: {size.nodes} }}"
    if kind in ("winning", "window"):
        count, sectors = (1, WINNING_CHALLENGES) if kind == "winning" else (WINDOW_CHALLENGES, size.window_sectors)
        return (f"FallbackPoSt::PublicParams{{sector_size: {size.bytes}, challenge_count: {count}, "
                f"sector_count: {sectors}}}")
    graph = (f"stacked_graph::StackedGraph{{expansion_degree: 8 base_graph: drgraph::BucketGraph{{size: {size.nodes}; "
             "degree: 6; hasher: poseidon_hasher} }")
    return (f"layered_drgporep::PublicParams{{ graph: {graph}, challenges: LayerChallenges {{ layers: {size.layers}, "
            f"max_count: {size.porep_challenges} }}, tree: {size.tree_name} }}")


def parameter_identifier(kind: str, size: Size) -> str:
    """`<prefix>-<tree>[-sha256_hasher]-<sha256>`, as the cache identifier of the reference."""
    prefix = {"snap": "empty-sector-update", "winning": "proof-of-spacetime-fallback",
              "window": "proof-of-spacetime-fallback", "porep": "stacked-proof-of-replication"}[kind]
    hasher = "-sha256_hasher" if kind == "porep" else ""
    return f"{prefix}-{size.tree_name}{hasher}-{hashlib.sha256(identifier(kind, size).encode()).hexdigest()}"


def parameter_stem(kind: str, size: Size) -> str:
    """Name of the parameter files without their ending."""
    return f"v{PARAMETER_VERSION}-{parameter_identifier(kind, size)}"


# parameters.json: first 32 hex digits of BLAKE2b-512 of (.params, .vk)
DIGESTS = {
    ("snap", "2KiB"): ("311f92a3e75036ced01b1c0025f1fa0c", "eadad9784969890d30f2749708c79771"),
    ("snap", "8MiB"): ("5aedd2cf3e5c0a15623d56a1b43110ad", "abd80269054d391a734febdac0d2e687"),
    ("snap", "512MiB"): ("c3ad7bb549470b82ad52ed070aebb4f4", "994c5b7d450ca9da348c910689f2dc7f"),
    ("snap", "32GiB"): ("1b3cfd761a961543f9eb273e435a06a2", "3a6941983754737fde880d29c7094905"),
    ("snap", "64GiB"): ("1a392e7b759fb18e036c7559b5ece816", "80e366df2f1011953c2d01c7b7c9ee8e"),
    ("window", "2KiB"): ("7610b9f82bfc88405b7a832b651ce2f6", "0e0958009936b9d5e515ec97b8cb792d"),
    ("winning", "2KiB"): ("82c88066be968bb550a05e30ff6c2413", "ffd79788d614d27919ae5bd2d94eacb6"),
    ("window", "32GiB"): ("2cf49eb26f1fee94c85781a390ddb4c8", "0f8ec542485568fa3468c066e9fed82b"),
    ("winning", "32GiB"): ("d84f79a16fe40e9e25a36e2107bb1ba0", "fc02943678dd119e69e7fab8420e8819"),
    ("porep", "2KiB"): ("434fb1338ecfaf0f59256f30dde4968f", "dc1ade9929ade1708238f155343044ac"),
    ("porep", "8MiB"): ("09e612e4eeb7a0eb95679a88404f960c", "b687beb9adbd9dabe265a7e3620813e4"),
    ("porep", "512MiB"): ("6c77597eb91ab936c1cef4cf19eba1b3", "065179da19fbe515507267677f02823e"),
    ("porep", "32GiB"): ("6a388072a518cf46ebd661f5cc46900a", "0c7b4aac1c40fdb7eb82bc355b41addf"),
    ("porep", "64GiB"): ("1801f8a6e1b00bceb00cc27314bb5ce3", "a89884252c04c298d0b3c81bfd884164"),
}
# the fallback PoSt's files of one size differ in their identifiers only
_POST_DIGESTS = {
    "0cfb4f178bbb71cf2ecfcd42accce558b27199ab4fb59cb78f2483fe21ef36d9":
        ("1a7d4a9c8a502a497ed92a54366af33f", "4dae975de4f011f101f5a2f86d1daaba"),
    "50c7368dea9593ed0989e70974d28024efa9d156d585b7eea1be22b2e753f331":
        ("700171ecf7334e3199437c930676af82", "79ebb55f56fda427743e35053edad8fc"),
    "5294475db5237a2e83c3e52fd6c2b03859a1831d45ed08c4f35dbf9a803165a9":
        ("c49499bb76a0762884896f9683403f55", "34d4feeacd9abf788d69ef1bb4d8fd00"),
    "7d739b8cf60f1b0709eeebee7730e297683552e4b69cab6984ec0285663c5781":
        ("827359440349fe8f5a016e7598993b79", "bd2cd62f65c1ab84f19ca27e97b7c731"),
    "2627e4006b67f99cef990c0a47d5426cb7ab0a0ad58fc1061547bf2d28b09def":
        ("3810b7780ac0e299b22ae70f1f94c9bc", "59d2bf1857adc59a4f08fcf2afaa916b"),
    "b62098629d07946e9028127e70295ed996fe3ed25b0f9f88eb610a0ab4385a3c":
        ("2170a91ad5bae22ea61f2ea766630322", "6d3789148fb6466d07ee1e24d6292fd6"),
}


def published_digests(kind: str, size: Size) -> tuple[str | None, str | None]:
    """Digests of the network's (.params, .vk), None where it has published none."""
    found = DIGESTS.get((kind, size.name))
    if found is None and kind in ("winning", "window"):
        found = _POST_DIGESTS.get(parameter_identifier(kind, size).rsplit("-", 1)[1])
    return found or (None, None)
