"""Model files taken apart, and put together again with checksums that are right whatever was changed in between.

Checksums keep accidents out, not forgers: they are plain hashes. This is the forger, so that what stands behind them is
tested too. It also writes down the format of our section of the file (cpp/reductions/explorer_state.cc).
"""

import struct
from dataclasses import dataclass
from itertools import accumulate, pairwise

import mmh3

FLAGS = (b"opo_cmab", b"fastcb\0\0", b"adacb\0\0\0")
SECTION = struct.Struct("<8s2I5Q")  # flag, version, unused, size and checksum of the state, of what is below, of this
BEFORE_OPTIONS = [4, None, 1, 4, 4, 4, 4, 4, 4]  # VW's fields from the id's length on; None: the id


def checksum(data: bytes, seed: int = 0) -> int:
    return mmh3.hash(data, seed, signed=False)


def with_length(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


@dataclass
class ModelFile:
    """A model of one of our explorers, with no n-grams.

    Attributes:
        start: VW's header up to the options
        options: the command line in VW's header
        between: what reductions above the explorer save
        flag: the explorer's, padded to 8 bytes
        version: of the format of our section
        state: the explorer's
        below: what the reductions below the explorer save, the weights last
        sizes: of state and below, if others than theirs are to be claimed
    """

    start: bytes
    options: str
    between: bytes
    flag: bytes
    version: int
    state: bytes
    below: bytes
    sizes: tuple[int, int] | None = None

    @classmethod
    def parse(cls, data: bytes) -> "ModelFile":
        options_at = cls._field_ends(data)[-1]
        (size,) = struct.unpack_from("<I", data, options_at)
        options = data[options_at + 4 : options_at + 4 + size]
        end = options_at + 4 + size + 8  # the header's checksum, with its length
        section_at = min(i for i in (data.find(flag, end) for flag in FLAGS) if i >= 0)
        flag, version, _, state_size, _, below_size, *_ = SECTION.unpack_from(data, section_at)
        state_at = section_at + SECTION.size
        model = cls(
            start=data[:options_at],
            options=options.rstrip(b"\0").decode(),
            between=data[end:section_at],
            flag=flag,
            version=version,
            state=data[state_at : state_at + state_size],
            below=data[state_at + state_size : state_at + state_size + below_size],
        )
        if model.assemble() != data:
            raise ValueError("the format of model files is another than this module knows")
        return model

    def assemble(self) -> bytes:
        options = with_length(self.options.encode() + b"\0")
        chained = 0
        for begin, end in pairwise(self._field_ends(self.start)):
            chained = checksum(self.start[begin:end], chained)
        chained = checksum(options[4:], checksum(options[:4], chained))
        header = self.start + options + with_length(struct.pack("<I", chained))

        state_size, below_size = self.sizes or (len(self.state), len(self.below))
        fields = (self.flag, self.version, 0, state_size, checksum(self.state), below_size, checksum(self.below))
        unsigned = SECTION.pack(*fields, 0)[:-8]
        section = unsigned + struct.pack("<Q", checksum(unsigned))
        return header + self.between + section + self.state + self.below

    @staticmethod
    def _field_ends(data: bytes) -> list[int]:
        """Where VW's fields end, each of which goes into the header's checksum: from the version on, which does not."""
        (version_size,) = struct.unpack_from("<I", data)
        first = 4 + version_size
        (id_size,) = struct.unpack_from("<I", data, first)
        return list(accumulate((id_size if n is None else n for n in BEFORE_OPTIONS), initial=first))
