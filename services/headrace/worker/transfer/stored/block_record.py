"""Record of a KV block in the store that workers share: the header that slots on a disk have, and the block."""

from headrace.worker.transfer.kept.slot_header import HEADER_BYTES, SlotHeader


def record_of(name: bytes, content: bytes, layout: str) -> bytes:
    """Makes the record of a block. See `SlotHeader.of`."""
    return SlotHeader.of(name, content, layout.encode()).data() + content


def content_of(record: bytes, name: bytes, layout: str) -> bytes | None:
    """Returns the block in a record. None: it is another one, or not bit by bit as it was when its record was made."""
    header, content = SlotHeader.read(record[:HEADER_BYTES]), record[HEADER_BYTES:]
    return content if header is not None and header.fits(name, content, layout.encode()) else None
