"""Message classes and services from .proto files, at import: no generated code that must fit the library's version.

Reads the part of the language (proto3) that the two files beside it use: messages with scalar, enum, message and
repeated fields, enums, services of unary calls.
"""
from __future__ import annotations

import re
from importlib import resources
from types import SimpleNamespace
from typing import NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_TOKEN = re.compile(r'\s+|//[^\n]*|("[^"]*"|[A-Za-z_][\w.]*|\d+|[{}()=;])')
_SCALARS = {name: getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{name.upper()}")
            for name in ("bool", "bytes", "double", "string", "uint32", "uint64")}


class Method(NamedTuple):
    """A unary call."""

    path: str           # "/cuzk.v1.ProvingEngine/Prove"
    request: type       # message classes
    response: type


class _Reader:
    """Recursive descent over the tokens of one file. Raises ValueError for what it does not know."""

    def __init__(self, text: str):
        self._tokens, at = [], 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError(f"unexpected character {text[at]!r}")
            if match[1]:
                self._tokens.append(match[1])
            at = match.end()
        self._tokens.reverse()

    def _next(self, *expected: str) -> str:
        token = self._tokens.pop() if self._tokens else "the end"
        if expected and token not in expected:
            raise ValueError(f"expected {' or '.join(expected)}, actual {token}")
        return token

    def _all(self, *tokens: str) -> None:
        for token in tokens:
            self._next(token)

    def file(self, name: str) -> descriptor_pb2.FileDescriptorProto:
        found = descriptor_pb2.FileDescriptorProto(name=name, syntax="proto3")
        self._all("syntax", "=", '"proto3"', ";", "package")
        found.package = self._next()
        self._all(";")
        while self._tokens:
            kind = self._next("message", "enum", "service")
            getattr(self, kind)(getattr(found, f"{kind}_type" if kind != "service" else kind).add())
        return found

    def message(self, found: descriptor_pb2.DescriptorProto) -> None:
        found.name = self._next()
        self._all("{")
        while (token := self._next()) != "}":
            if token == "enum":
                self.enum(found.enum_type.add())
            else:
                self._field(found.field.add(), token)

    def _field(self, field: descriptor_pb2.FieldDescriptorProto, token: str) -> None:
        repeated = token == "repeated"
        kind = self._next() if repeated else token
        field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
        field.name = self._next()
        self._all("=")
        field.number = int(self._next())
        self._all(";")
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            field.type_name = kind      # the pool finds out whether it is a message or an enum

    def enum(self, found: descriptor_pb2.EnumDescriptorProto) -> None:
        found.name = self._next()
        self._all("{")
        while (token := self._next()) != "}":
            self._all("=")
            found.value.add(name=token, number=int(self._next()))
            self._all(";")

    def service(self, found: descriptor_pb2.ServiceDescriptorProto) -> None:
        found.name = self._next()
        self._all("{")
        while self._next("rpc", "}") == "rpc":
            method = found.method.add(name=self._next())
            self._all("(")
            method.input_type = self._next()
            self._all(")", "returns", "(")
            method.output_type = self._next()
            self._all(")", ";")


def parse(name: str, text: str) -> descriptor_pb2.FileDescriptorProto:
    """The descriptor of a file. Raises ValueError for what is not of this part of the language."""
    return _Reader(text).file(name)


def load(name: str, text: str) -> SimpleNamespace:
    """Its messages by name, `services[service][method]`, and `enums[name]`, in a pool of their own."""
    pool = descriptor_pool.DescriptorPool()
    file = pool.Add(parse(name, text)) or pool.FindFileByName(name)
    of = {key: message_factory.GetMessageClass(d) for key, d in file.message_types_by_name.items()}
    services = {
        service.name: {m.name: Method(f"/{service.full_name}/{m.name}", of[m.input_type.name], of[m.output_type.name])
                       for m in service.methods}
        for service in file.services_by_name.values()}
    return SimpleNamespace(**of, services=services, enums=file.enum_types_by_name)


def _beside(name: str) -> SimpleNamespace:
    return load(f"cuzk/v1/{name}", resources.files(__package__).joinpath(name).read_text())


proving, control = _beside("proving.proto"), _beside("control.proto")
