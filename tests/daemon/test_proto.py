"""The .proto files, read by us, by protoc, and written down a second time."""
from importlib import resources

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_tools import protoc

from cuzk_cli.daemon import proto

from . import curio

FILES = resources.files("cuzk_cli.daemon")


@pytest.mark.parametrize("name", ["proving.proto", "control.proto"])
def test_read_as_protoc_reads_it(name, tmp_path):
    with resources.as_file(FILES.joinpath(name)) as path:
        assert protoc.main(["", f"-I{path.parent}", f"--descriptor_set_out={tmp_path / 'set'}", str(path)]) == 0
    (theirs,) = descriptor_pb2.FileDescriptorSet.FromString((tmp_path / "set").read_bytes()).file
    ours = _whole(proto.parse(name, FILES.joinpath(name).read_text()))
    assert ours == _whole(theirs)


def _whole(file) -> descriptor_pb2.FileDescriptorProto:
    """With types found out, without what only JSON needs."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = descriptor_pb2.FileDescriptorProto()
    pool.FindFileByName(file.name).CopyToProto(found)
    for message in found.message_type:
        for field in message.field:
            field.ClearField("json_name")
    return found


def test_names_and_numbers_are_curios():
    ours = _whole(proto.parse("curio.proto", FILES.joinpath("proving.proto").read_text()))
    theirs = _whole(curio.descriptor())
    by_name = lambda items: {item.name: item for item in items}
    assert by_name(ours.message_type).keys() == by_name(theirs.message_type).keys()
    for name, message in by_name(theirs.message_type).items():
        assert by_name(ours.message_type)[name] == message
    assert by_name(ours.enum_type) == by_name(theirs.enum_type)
    assert by_name(ours.service) == by_name(theirs.service)


@pytest.mark.parametrize("text", [
    "", 'syntax = "proto2"; package a;', 'syntax = "proto3"; package a; option b = 1;',
    'syntax = "proto3"; package a; message M { string s = 1 }', 'syntax = "proto3"; package a; message M {',
    'syntax = "proto3"; package a; message M { string s = x; }', 'syntax = "proto3"; package a; %'])
def test_what_it_does_not_know_is_refused(text):
    with pytest.raises(ValueError):
        proto.parse("x", text)
