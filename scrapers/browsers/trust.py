"""Trust certificate authorities in a browser's profile.

Chromium on Linux trusts the authorities in the NSS database of its HOME beside its own. The database is written by the
library that Chromium itself loads, as certutil would, in a process of its own: NSS knows one database per process.

Run as a script, with the standard library only: ``python -I -S trust.py HOME PEM``.
"""

import ctypes
import re
import ssl
import sys
from pathlib import Path

_LIBRARY = "libnss3.so"
# CERTDB_VALID_CA, CERTDB_TRUSTED_CA and CERTDB_NS_TRUSTED_CA for TLS servers.
_TRUSTED_FOR_TLS = 0x08 | 0x10 | 0x80
_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class _Item(ctypes.Structure):
    _fields_ = (("type", ctypes.c_uint), ("data", ctypes.c_char_p), ("length", ctypes.c_uint))


class _Trust(ctypes.Structure):
    _fields_ = (("tls", ctypes.c_uint), ("email", ctypes.c_uint), ("code", ctypes.c_uint))


def trust(home: Path, pem: str) -> None:
    """Let a browser whose HOME is `home` trust the certificates in `pem`. Raises OSError, ValueError."""
    nss = ctypes.CDLL(_LIBRARY)
    for name in ("PK11_GetInternalKeySlot", "CERT_GetDefaultCertDB", "CERT_NewTempCertificate"):
        getattr(nss, name).restype = ctypes.c_void_p
    folder = home / ".pki" / "nssdb"
    folder.mkdir(parents=True)
    _check(nss.NSS_InitReadWrite(f"sql:{folder}".encode()), "NSS_InitReadWrite")
    slot = ctypes.c_void_p(nss.PK11_GetInternalKeySlot())
    database = ctypes.c_void_p(nss.CERT_GetDefaultCertDB())
    _check(nss.PK11_InitPin(slot, None, b""), "PK11_InitPin")
    for number, text in enumerate(_CERTIFICATE.findall(pem)):
        der = ssl.PEM_cert_to_DER_cert(text)
        item = _Item(0, der, len(der))
        certificate = ctypes.c_void_p(nss.CERT_NewTempCertificate(database, ctypes.byref(item), None, 0, 1))
        if certificate.value is None:
            raise ValueError(f"certificate {number + 1} is not valid")
        nickname = f"memeloom {number}".encode()
        _check(nss.PK11_ImportCert(slot, certificate, ctypes.c_ulong(0), nickname, 0), "PK11_ImportCert")
        trusted = _Trust(_TRUSTED_FOR_TLS, 0, 0)
        _check(nss.CERT_ChangeCertTrust(database, certificate, ctypes.byref(trusted)), "CERT_ChangeCertTrust")
        nss.CERT_DestroyCertificate(certificate)
    nss.PK11_FreeSlot(slot)
    _check(nss.NSS_Shutdown(), "NSS_Shutdown")


def _check(status: int, function: str) -> None:
    if status != 0:
        raise OSError(f"{function} failed")


if __name__ == "__main__":
    trust(Path(sys.argv[1]), Path(sys.argv[2]).read_text())
