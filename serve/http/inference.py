"""The Open Inference Protocol: the model for programs that speak to any inference server.

The model takes texts and templates and returns the probabilities of the next token: the interface of the endpoint
`next_character` of a conv net's SavedModel. A client that decodes with it writes the captions that this server writes.

https://github.com/open-inference/open-inference-protocol
"""

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from memeloom.serve.captions.errors import NoModel
from memeloom.serve.captions.served import ServedModel
from memeloom.serve.http.captioning.writing import Captioning, Model, captions_problems, deadline_of, unless_gone
from memeloom.serve.http.problems import Problem, ProblemRoute

_MOST_ROWS: Final = 256
_MOST_CHARACTERS: Final = 1000
# Of all texts as long as the longest: the model reads them side by side, and captions wait meanwhile.
_MOST_READ: Final = 32_768
_NAMES: Final = ("text", "template")


class InferenceError(BaseModel):
    """Why a request failed."""

    error: str


class _InferenceRoute(ProblemRoute):
    """Answers errors as the protocol does: ``{"error": …}``."""

    async def answer(self, request: Request, problem: Problem) -> Response | None:  # noqa: ARG002
        return (
            None if problem.status == 500 else JSONResponse({"error": problem.detail}, problem.status, problem.headers)
        )


_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": InferenceError, "description": text}
    for status, text in (
        (400, "Not JSON"),
        (404, "No such model"),
        (422, "Invalid request"),
        (503, "No model, or too busy"),
    )
}
router: Final = APIRouter(prefix="/v2", tags=["Open Inference Protocol"], route_class=_InferenceRoute)


class ServerFacts(BaseModel):
    """The server."""

    name: str = "memeloom"
    version: str
    extensions: list[str] = []


class Live(BaseModel):
    """Whether the server answers."""

    live: bool


class Ready(BaseModel):
    """Whether the model can be used."""

    ready: bool


class ModelReady(Ready):
    """Whether a model can be used."""

    name: str


class TensorFacts(BaseModel):
    """An input or output; a size of -1 is free."""

    name: str
    datatype: str
    shape: list[int]


class ModelFacts(BaseModel):
    """A model."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorFacts]
    outputs: list[TensorFacts]


class InputTensor(BaseModel):
    """An input: one text a row."""

    name: Literal["text", "template"]
    shape: Annotated[list[int], Field(min_length=1, max_length=2)]
    datatype: Literal["BYTES"]
    data: Annotated[
        list[Annotated[str, Field(max_length=_MOST_CHARACTERS)]], Field(min_length=1, max_length=_MOST_ROWS)
    ]
    parameters: dict[str, Any] | None = None


class OutputChoice(BaseModel):
    """An output to return."""

    name: Literal["probabilities", "likeliest"]
    parameters: dict[str, Any] | None = None


class InferenceRequest(BaseModel):
    """Texts so far, each box ended by the separator, and their templates: ids, slugs or names."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "inputs": [
                        {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["such "]},
                        {"name": "template", "shape": [1], "datatype": "BYTES", "data": ["doge"]},
                    ]
                }
            ]
        }
    )

    id: Annotated[str, Field(max_length=200)] | None = None
    inputs: Annotated[list[InputTensor], Field(min_length=2, max_length=2)]
    outputs: Annotated[list[OutputChoice], Field(min_length=1, max_length=2)] | None = None
    parameters: dict[str, Any] | None = None


class OutputTensor(TensorFacts):
    """An output, its numbers row by row."""

    data: list[float] | list[str]


class InferenceAnswer(BaseModel):
    """The outputs."""

    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[OutputTensor]


@router.get("")
async def server_facts(request: Request) -> ServerFacts:
    """Describe the server."""
    return ServerFacts(version=request.app.version)


@router.get("/health/live")
async def live() -> Live:
    """Answer as long as the server runs."""
    return Live(live=True)


@router.get("/health/ready", responses={503: {"model": Ready, "description": "No model yet"}})
async def ready(captioning: Model, response: Response) -> Ready:
    """Say whether captions can be written."""
    try:
        captioning.watched.writer()
    except NoModel:
        response.status_code = 503
        return Ready(ready=False)
    return Ready(ready=True)


@router.get("/models/{name}", responses=_ERRORS)
async def model_facts(name: str, captioning: Model) -> ModelFacts:
    """Describe the model."""
    served = _named(captioning, name)
    tokens = len(served.model.boxes_closed)
    return ModelFacts(
        name=name,
        versions=[served.version],
        platform="memeloom",
        inputs=[TensorFacts(name=each, datatype="BYTES", shape=[-1]) for each in _NAMES],
        outputs=[
            TensorFacts(name="probabilities", datatype="FP32", shape=[-1, tokens]),
            TensorFacts(name="likeliest", datatype="BYTES", shape=[-1]),
        ],
    )


@router.get("/models/{name}/ready", responses=_ERRORS)
async def model_ready(name: str, captioning: Model) -> ModelReady:
    """Say whether the model can be used."""
    _named(captioning, name)
    return ModelReady(name=name, ready=True)


@router.post("/models/{name}/infer", responses=_ERRORS)
async def infer(name: str, body: InferenceRequest, request: Request, captioning: Model) -> InferenceAnswer:
    """Return the probabilities of the next token of each text."""
    inputs = {tensor.name: tensor for tensor in body.inputs}
    if set(inputs) != set(_NAMES):
        raise Problem(422, None, "inputs are text and template", "inputs")
    rows = len(inputs["text"].data)
    for tensor in inputs.values():
        if len(tensor.data) != rows or tensor.shape not in ([rows], [rows, 1]):
            raise Problem(422, None, f"{tensor.name}: shape and data do not have {rows} rows", "inputs")
    if rows * max(map(len, inputs["text"].data)) > _MOST_READ:
        raise Problem(422, None, f"text: rows times the longest text are more than {_MOST_READ} characters", "inputs")
    found = await unless_gone(
        request, captioning.next_tokens(name, inputs["text"].data, inputs["template"].data, deadline_of(request))
    )
    table = found.probabilities
    wanted = [each.name for each in body.outputs] if body.outputs else ["probabilities", "likeliest"]
    outputs: dict[str, OutputTensor] = {
        "probabilities": OutputTensor(
            name="probabilities", datatype="FP32", shape=list(table.shape), data=table.ravel().tolist()
        ),
        "likeliest": OutputTensor(name="likeliest", datatype="BYTES", shape=[rows], data=found.likeliest),
    }
    return InferenceAnswer(
        model_name=name, model_version=found.model, id=body.id, outputs=[outputs[each] for each in wanted]
    )


def _named(captioning: Captioning, name: str) -> ServedModel:
    """Return the model, by its kind or version. Raises Problem."""
    with captions_problems():
        served = captioning.watched.served
        served.check_name(name)
        return served
