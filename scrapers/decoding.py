"""Scrapy's decompression of pages; its failures are counted as for pictures: too many bytes, or cut off."""

from scrapy import Request
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.exceptions import DownloadCancelledError, IgnoreRequest, ResponseDataLossError
from scrapy.http import Response


class Decoding(HttpCompressionMiddleware):
    """The downloader middleware that decompresses bodies."""

    def process_response(  # type: ignore[override]
        self, request: Request, response: Response
    ) -> Request | Response:
        """Return the decompressed response. Raises DownloadCancelledError, ResponseDataLossError."""
        try:
            result: Request | Response = super().process_response(request, response)
        except IgnoreRequest as error:  # a bomb
            raise DownloadCancelledError(str(error)) from error
        except Exception as error:  # a damaged body; each decompressor raises its own
            raise ResponseDataLossError(f"{response.url}: {type(error).__name__}: {error}") from error
        return result
