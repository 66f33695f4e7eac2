"""Any text fits into an address and comes back, by the escapes that memegen's clients write."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memeloom.serve.http.pictures.addresses import decode_lines, encode_lines, quoted

# Texts and their paths, as memegen's documentation and clients write them.
MEMEGEN = [
    (["hello world"], "hello_world"),
    (["?%#/&\\<>"], "~q~p~h~s~a~b~l~g"),
    (["a/b", "c"], "a~sb/c"),
    (["variable_name"], "variable__name"),
    (["variable-name"], "variable--name"),
    (["foo\nbar"], "foo~nbar"),
    (["def data() -> Dict"], "def_data()_--~g_Dict"),
    (["finish <- start"], "finish_~l--_start"),
    (['That\'s not how "this" works'], "That's_not_how_''this''_works"),
    (["git commit --no-verify"], "git_commit_----no--verify"),
    (["_username likes _charname"], "__username_likes___charname"),
    (["underscore_ dash-"], "underscore__-dash--"),
    (["kill -9"], "kill_--9"),
    (["#special characters?", "underscore_ dash- :thumbsup:"], "~hspecial_characters~q/underscore__-dash--_:thumbsup:"),
    (["Engineer", "", "Is this Photoshop?"], "Engineer/_/Is_this_Photoshop~q"),
]


@pytest.mark.parametrize(("lines", "path"), MEMEGEN)
def test_texts_are_written_and_read_as_memegen_does(lines: list[str], path: str) -> None:
    assert encode_lines(lines) == path
    assert decode_lines(path) == lines


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("hello-world", ["hello world"]),
        ("_", []),
        ("a/_/_", ["a"]),
        ("_/b", ["", "b"]),
        ("a//b", ["a", "", "b"]),
        ("~x", ["~x"]),
        ("", []),
    ],
)
def test_paths_that_people_write_are_understood(path: str, lines: list[str]) -> None:
    assert decode_lines(path) == lines


@given(st.lists(st.text("ab_- ~ntq?&%#/\\<>\".\n'é😀\0", max_size=12), max_size=4))
def test_every_text_comes_back(lines: list[str]) -> None:
    expected = [line.replace("''", '"').strip() for line in lines]
    while expected and not expected[-1]:
        expected.pop()
    path = encode_lines(lines)
    assert "?" not in path
    assert "#" not in path
    if not any("''" in line for line in lines):
        assert decode_lines(path) == expected
        assert encode_lines(decode_lines(path)) == path, "canonical"
    assert unquote(quoted(path)) == path
    assert not {".", ".."} & set(path.split("/")), "clients would resolve it"
