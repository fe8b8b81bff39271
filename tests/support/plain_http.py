"""The argument `verify` for clients of httpx that speak HTTP without TLS.

Each would read the certificates of all authorities again, which takes more of a processor than dozens of
requests, and tests that wait make a client for each look.
"""

import ssl

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
