"""A form with one file in it, read while it arrives (RFC 7578)."""

from collections.abc import Iterator

from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.http import parse_options_header
from werkzeug.sansio.multipart import Data, Epilogue, Field, File, MultipartDecoder, NeedData

from headrace.errors import InvalidRequest, UnsupportedMediaType

FILE_FIELD = "file"
MAX_FIELDS = 16
MAX_FIELD_BYTES = 4096
MAX_NAME_LENGTH = 255
SLICE_BYTES = 64 * 1024
"""Bytes that are read in one go."""
_DELIMITER_BYTES = 8
"""Bytes of a delimiter in addition to those of the boundary."""
_MEMORY_BYTES = 4 * SLICE_BYTES


class UploadForm:
    """Hands on the content of the field `file`, and keeps the others."""

    def __init__(self, content_type: str) -> None:
        """`content_type`: the header of the request. Raises UnsupportedMediaType."""
        kind, options = parse_options_header(content_type)
        boundary = options.get("boundary", "")
        if kind.lower() != "multipart/form-data" or not boundary or not boundary.isascii():
            raise UnsupportedMediaType(
                "a file is sent as multipart/form-data with a boundary, as curl -F does", param="content-type"
            )
        self.fields: dict[str, str] = {}
        self.filename: str | None = None
        """Name of the file. None: it has not come."""
        self._decoder = MultipartDecoder(boundary.encode(), _MEMORY_BYTES, max_parts=MAX_FIELDS)
        self._window = len(boundary) + _DELIMITER_BYTES
        self._held = b""
        """End of what has come that may be the begin of a delimiter."""
        self._is_file = False
        self._name = ""
        self._value = b""

    def feed(self, part: bytes) -> Iterator[bytes]:
        """Takes the next part of the body, and yields what of it is content of the file. Raises InvalidRequest."""
        for start in range(0, len(part), SLICE_BYTES):
            data = self._held + part[start : start + SLICE_BYTES]
            cut = self._cut(data)
            self._held = data[cut:]
            yield from self._decoded(data[:cut])

    def end(self) -> None:
        """Takes note of the end of the body. Raises InvalidRequest for one that is not whole, or has no file."""
        rest = [piece for data in (self._held, None) for piece in self._decoded(data)]
        if any(rest):
            raise InvalidRequest("the form cannot be read: it ends too early")
        if self.filename is None:
            raise InvalidRequest("the form has no field named file with a file in it", param=FILE_FIELD)

    def _cut(self, data: bytes) -> int:
        """Returns how many bytes may be decoded. The decoder must not see a part of a delimiter: of one that is cut
        behind its boundary, it takes the carriage return for content (https://github.com/pallets/werkzeug/issues/3285)."""
        begin = max(0, len(data) - self._window)
        found = [at for at in (data.rfind(b"\r", begin), data.rfind(b"\n", begin)) if at >= 0]
        return min(found) if found else len(data)

    def _decoded(self, data: bytes | None) -> Iterator[bytes]:
        try:
            self._decoder.receive_data(data)
            while not isinstance(event := self._decoder.next_event(), NeedData | Epilogue):
                if isinstance(event, File | Field):
                    self._begin(event)
                elif isinstance(event, Data):
                    yield from self._take(event)
        except RequestEntityTooLarge:
            raise InvalidRequest("the form has too many fields, or too long ones") from None
        except InvalidRequest:
            raise
        except ValueError as error:
            raise InvalidRequest(f"the form cannot be read: {error}") from None

    def _begin(self, field: File | Field) -> None:
        self._is_file = isinstance(field, File) and field.name == FILE_FIELD
        self._name, self._value = field.name or "", b""
        if isinstance(field, File) and self._is_file:
            if self.filename is not None:
                raise InvalidRequest("the form has two files: send one at a time", param=FILE_FIELD)
            self.filename = field.filename.replace("\\", "/").rpartition("/")[2][-MAX_NAME_LENGTH:] or "file"

    def _take(self, event: Data) -> Iterator[bytes]:
        if self._is_file:
            if event.data:
                yield event.data
            return
        self._value += event.data
        if len(self._value) > MAX_FIELD_BYTES:
            raise InvalidRequest(f"{self._name[:80]} is longer than {MAX_FIELD_BYTES} bytes", param=self._name)
        if not event.more_data:
            self.fields[self._name] = self._value.decode()
