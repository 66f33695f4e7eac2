"""The types that settings are made of; `schema.py` and the settings of sources use them."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Folder = Annotated[str, "folder"]  # the command line completes these as paths
File = Annotated[str, "file"]


class Section(BaseModel):
    """A group of settings; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
