"""Masks: no secret in any part of any address is shown, and hosts stay readable."""

import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from memeloom.configs.load import load_config
from memeloom.configs.masks import Redactor, hosts_of, mask_url


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mongodb://u:p@a:27017,b/d", "mongodb://********@a:27017,b/d"),
        ("mongodb://h/d", "mongodb://h/d"),
        ("mongodb+srv://u@h/d", "mongodb+srv://********@h/d"),
        ("mongodb://h/d?tlsCertificateKeyFilePassword=hush&authSource=admin", "mongodb://h/d?********"),
        ("mongodb://u:pa/ss@h/d", "mongodb://********"),
        ("mongodb://u:p%2Fs%40s:x@h/d", "mongodb://********@h/d"),
        ("mongodb://%2Ftmp%2Fmongodb-27017.sock/d", "mongodb://%2Ftmp%2Fmongodb-27017.sock/d"),
        ("mongodb://u%3Ahush%40h/d", "mongodb://********"),
        ("redis://:pa?ss@h/0", "redis://********"),
        ("redis://:p@ss@h:6379/0", "redis://********@h:6379/0"),
        ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
        ("redis://h/0?password=hush", "redis://h/0?********"),
        ("rediss://u:p@a/0,rediss://:q@b:7000/0?x=1, redis://c", "rediss://********@a/0,rediss://********@b:7000/0?********,redis://c"),
        ("unix:///tmp/redis.sock?password=hush", "unix:///tmp/redis.sock?********"),
        ("unix://u:hush@/tmp/redis.sock", "unix://********@/tmp/redis.sock"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
        ("s3://bucket/prefix?AWS_SESSION_TOKEN=hush", "s3://bucket/prefix?********"),
        ("s3://AKIA:hu/sh@bucket", "s3://********"),
        ("sqlite:////home/me@work/catalog.db", "sqlite:////home/me@work/catalog.db"),
        ("sqlite:///catalog.db?key=hush", "sqlite:///catalog.db?********"),
        ("https://imgflip.com", "https://imgflip.com"),
        ("https://imgflip.com/", "https://imgflip.com/"),
        ("https://host/services/hush?token=hush#hush", "https://host/********?********#********"),
        ("https://h:99999999/", "https://********"),
        ("http://[bad/", "http://********"),
        ("see mongodb://u:p@h", "********"),
        ("user:hush@host:6379", "********@host:6379"),
        ("user:hush@a b", "********"),
        ("host:8000/x?token=hush", "host:8000/x?********"),
        ("mongodb://${USER}:hush@${HOST}:${PORT}/d", "mongodb://********@${HOST}:${PORT}/d"),
        ("me@example.org", "me@example.org"),
        ("data/blobs", "data/blobs"),
        ("C:\\data", "C:\\data"),
        ("auto", "auto"),
    ],
)  # fmt: skip
def test_what_is_shown_of_an_address(text: str, shown: str) -> None:
    assert mask_url(text) == shown


# Words of these letters are in no mask and in no other part of the address; signs separate parts of an address.
_SECRETS = st.lists(
    st.one_of(st.text("xyz", min_size=3, max_size=6), st.sampled_from([*":/@?#&=%,;[]\\ '\"${}\n", "%40", "://", "ü"])),
    min_size=1, max_size=8,
).map("".join)  # fmt: skip
_ADDRESSES = [
    "mongodb://{user}:{secret}@h1:27017,h2/db?authSource=a", "mongodb+srv://{secret}@h1/db",
    "mongodb://u:{secret}@h1/db?k={other}&w=1", "mongodb://h1/db?tlsCertificateKeyFilePassword={secret}",
    "redis://:{secret}@h1:6379/0", "redis://u:{secret}@h1/0,rediss://u:{other}@h2/1", "rediss://h1/0?password={secret}",
    "unix://u:{secret}@/run/redis.sock?db=0", "s3://{user}:{secret}@bucket/prefix", "s3://bucket/p?token={secret}",
    "https://{secret}@h1", "https://h1:443/{secret}/b?{other}={user}#{secret}", "http://{user}:{secret}@h1:3128",
    "ray://h1:10001?{secret}", "{user}:{secret}@h1:6379", "sqlite:///a.db?key={secret}", "h1/?token={secret}",
]  # fmt: skip
_STORE = load_config(environment={}).store
_QUOTES = [str, lambda text: quote(text, safe=""), quote_plus]


@settings(max_examples=500)
@given(st.sampled_from(_ADDRESSES), st.sampled_from(_QUOTES), _SECRETS, _SECRETS, _SECRETS)
@example("redis://:{secret}@h1:6379/0", str, "xyz,123", "z", "z")
@example("mongodb+srv://{secret}@h1/db", str, "xxx/1,h:2", "z", "z")
@example("{user}:{secret}@h1:6379", str, "xxxxxxx", " xxxxx", "z")
def test_no_part_of_a_secret_is_shown(address, quoted, user, secret, other) -> None:  # type: ignore[no-untyped-def]
    values = {"user": user, "secret": secret, "other": other}
    # A comma before a scheme separates two addresses, for their readers too.
    assume(not any(re.search(r",\s*[a-zA-Z][\w+.-]*://", quoted(value)) for value in values.values()))
    assume("://" in address or "://" not in user)  # a scheme is shown
    text = address.format(**{name: quoted(value) for name, value in values.items()})
    assert not re.search("[xyz]{2}", mask_url(text).replace("$", "")), text
    redact = Redactor(_STORE.model_copy(update={"documents": text}), {})
    assert not re.search("[xyz]{2}", redact(f"cannot reach {text}: refused")), text


@pytest.mark.parametrize("host", ["h", "db-1.example.org:27017", "a,b:1", "10.0.0.1:80", "[2001:db8::1]:6379", "ü.org"])
@pytest.mark.parametrize("user", ["", "u:p@", "t@"])
def test_hosts_and_ports_are_always_shown(host: str, user: str) -> None:
    assert hosts_of(f"mongodb://{user}{host}/d") == host
    assert host in mask_url(f"https://{user}{host}/?a=b")


def test_secrets_are_masked_in_the_messages_of_libraries() -> None:
    options = {
        "store.documents": "mongodb://me:open%20sesame@h/d?authMechanismProperties=AWS_SESSION_TOKEN:tok3n",
        "crawl.frontier": "redis://:fir/st@r1/0",
        "crawl.proxy": "http://me:thr33@proxy:3128",
        "store.s3.secret_key": "f0ur",
        "crawl.contact": "me@example.org",
    }
    environment = {"AWS_SECRET_ACCESS_KEY": "f1ve.f1ve", "https_proxy": "http://u:s1xs@p:1", "LANG": "C.UTF-8"}
    redact = Redactor(load_config(environment={}, options=options), environment)
    assert redact("mongodb://me:open%20sesame@h/d?authMechanismProperties=AWS_SESSION_TOKEN:tok3n is down") == (
        "mongodb://********@h/d?******** is down"
    )
    assert redact("AUTH failed: 'open sesame' AWS_SESSION_TOKEN:tok3n") == "AUTH failed: '********' ********"
    assert redact("Port could not be cast: redis://:fir/st@r1/0") == "Port could not be cast: redis://********"
    assert redact("thr33, f0ur, f1ve.f1ve, s1xs") == "********, ********, ********, ********"
    assert redact("me@example.org at C.UTF-8 on h and proxy") == "me@example.org at C.UTF-8 on h and proxy"
