"""Errors in the shape that OpenAI's clients read: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

from typing import Any

_TYPES = {
    400: "invalid_request_error",
    403: "permission_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    408: "invalid_request_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}


class ApiError(Exception):
    """status: HTTP. param: the parameter at fault, None when it is none."""

    def __init__(self, status: int, message: str, *, code: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param

    def body(self) -> dict[str, Any]:
        kind = _TYPES.get(self.status, "server_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


def unsupported(param: str, why: str) -> ApiError:
    return ApiError(400, f"`{param}`: {why}", code="unsupported_parameter", param=param)


def invalid(param: str | None, why: str) -> ApiError:
    return ApiError(400, f"`{param}`: {why}" if param else why, code="invalid_value", param=param)
