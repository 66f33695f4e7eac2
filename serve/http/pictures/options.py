"""The query parameters of a drawn picture, checked."""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from memeloom.templates.colours import hex_colour

T = TypeVar("T")

_MOST_BOXES: Final = 20
_FIELDS_OF_BOX: Final = 6
_LEAST_SIDE: Final = 10
# A fraction of a side; nothing is 0.
_PLACE: Final = r"(-?([0-9]{1,3}(\.[0-9]{1,6})?|\.[0-9]{1,6}))?"
# memegen's documentation page fills in this value.
_PLACEHOLDER: Final = "string"


class BoxParameter(NamedTuple):
    """A text box from a query, in pixels of the template; `colour` and `outline` None: the usual ones."""

    x: float
    y: float
    width: float
    height: float
    colour: str | None
    outline: str | None


def parse_box(text: str) -> BoxParameter | None:
    """Return the box of ``x,y,width,height[,colour[,outline]]``; None for an empty text. Raises ValueError."""
    if not text:
        return None
    parts = text.split(",")
    if not 4 <= len(parts) <= _FIELDS_OF_BOX:
        raise ValueError("write x,y,width,height or x,y,width,height,colour,outline")
    try:
        x, y, width, height = (float(part) for part in parts[:4])
    except ValueError:
        raise ValueError("x, y, width and height must be numbers") from None
    if not (abs(x) <= 1e5 and abs(y) <= 1e5 and 1 <= width <= 1e5 and 1 <= height <= 1e5):
        raise ValueError("x, y, width and height must be pixels of the template")
    colour, outline = ([hex_colour(part) if part else None for part in parts[4:]] + [None, None])[:2]
    return BoxParameter(x, y, width, height, colour, outline)


def parse_colours(text: str | None) -> tuple[str | None, ...]:
    """Return the colours of ``gold,,ff0000`` as ``#rrggbb``; None for an empty one. Raises UnknownColour."""
    return tuple(hex_colour(each.strip()) if each.strip() else None for each in (text or "").split(","))


def _read_by(parse: Callable[[T], object]) -> AfterValidator:
    """Return the validator of values that `parse` must be able to read; its ValueError is the message."""

    def check(value: T) -> T:
        try:
            parse(value)
        except ValueError as error:
            raise PydanticCustomError("value", "{reason}", {"reason": str(error)}) from None
        return value

    return AfterValidator(check)


def _unset(value: object) -> object:
    """Treat empty values, and the one that memegen's documentation fills in, as absent."""
    return None if value in ("", _PLACEHOLDER) else value


def _side(value: int) -> None:
    if 0 < value < _LEAST_SIDE:
        raise ValueError(f"at least {_LEAST_SIDE}, or 0 for the template's own size")


Optional = BeforeValidator(_unset)
Side = Annotated[int, Field(ge=0, le=5000), _read_by(_side)]


class ImageOptions(BaseModel):
    """How a meme is drawn. Unknown parameters are ignored, as memegen does."""

    model_config = ConfigDict(frozen=True)

    style: Annotated[str | None, Optional] = Field(
        None, max_length=2000, description="A style of the template, or the URL of a picture to lay over it."
    )
    center: str | None = Field(
        None, pattern=f"^{_PLACE},{_PLACE}$", examples=["0.5,0.25"],
        description="Centre of the laid-over picture, in fractions of the template.",
    )  # fmt: skip
    scale: float | None = Field(
        None, gt=0, le=4, allow_inf_nan=False,
        description="Size of the laid-over picture, in fractions of the template's.",
    )  # fmt: skip
    font: Annotated[str | None, Optional] = Field(
        None, max_length=100, description="Id or alias of a font of `/fonts/`."
    )
    layout: Literal["default", "top", "plain"] = Field(
        "default",
        description="`top` writes all lines into a white bar above the picture; `plain`, which memegen lacks, draws "
        "letters without an outline.",
    )
    width: Side = Field(0, description="Width in pixels; with `height`, the picture is padded to both.")
    height: Side = Field(0, description="Height in pixels.")
    color: Annotated[str | None, Optional, _read_by(parse_colours)] = Field(
        None, max_length=100, examples=["gold,ff0000"],
        description="Colour of each line, separated by commas: HTML names or hex; empty: the usual one.",
    )  # fmt: skip
    background: Annotated[str | None, Optional] = Field(
        None, max_length=2000, description="URL of the picture to draw on, with the template `custom`."
    )
    frames: int = Field(0, ge=0, le=10_000, description="Most frames of an animation; 0 is no limit.")
    status: int = Field(200, ge=200, le=201, description="Status of the response: 200 or 201.")
    box: list[Annotated[str, _read_by(parse_box)]] = Field(
        [], max_length=_MOST_BOXES, examples=[["10,10,200,60"]],
        description="A text box for each line, `x,y,width,height[,colour[,outline]]` in pixels of the template; "
        "empty: the template's own. Not in memegen.",
    )  # fmt: skip
    capitals: bool | None = Field(
        None, description="`false` keeps the case of the text, `true` draws capitals. Not in memegen."
    )
    max_font_size: Annotated[int, Field(ge=6, le=1000)] | None = Field(
        None, description="Largest letters, in pixels of the template. Not in memegen."
    )
    v: str | None = Field(
        None, max_length=64,
        description="Version of the template, from a URL that the server made: cached for ever.",
    )  # fmt: skip

    @model_validator(mode="before")
    @classmethod
    def _old_names(cls, values: Any) -> Any:
        """Accept memegen's older parameter `alt`: a style, or a background."""
        if isinstance(values, dict) and values.get("alt") and not values.get("style"):
            alt = str(values["alt"])
            return {**values, ("background" if "://" in alt and not values.get("background") else "style"): alt}
        return values

    @property
    def colours(self) -> tuple[str | None, ...]:
        """The colour of each line as ``#rrggbb``; None for the usual one."""
        return parse_colours(self.color)

    @property
    def boxes(self) -> list[BoxParameter | None]:
        """The text boxes, None where the template's own is wanted."""
        return [parse_box(text) for text in self.box]

    @property
    def centre(self) -> tuple[float, float]:
        """The centre of the laid-over picture."""
        x, _, y = (self.center or "0.5,0.5").partition(",")
        return float(x or 0), float(y or 0)
