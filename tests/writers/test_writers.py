"""Every writer, read back by somebody else."""

from __future__ import annotations

import json
import re
import subprocess

import numpy as np
import onnx
import pytest
from google.protobuf import json_format

from migraphx.ir.operation import Literal
from migraphx.ir.program import Program, reachable
from migraphx.ir.text import program_text
from migraphx.mxr.upstream import TYPES, to_upstream
from migraphx.targets.cpu.toolchain import find_compiler
from migraphx.writers import to_cpp, to_graphviz, to_json, to_netron, to_python
from tests.writers.programs import dynamic, rich

EDGE = re.compile(r'^  ("(?:[^"\\]|\\.)*") -> ("(?:[^"\\]|\\.)*")(?: \[label="[^"]*"\])?;$')
NODE = re.compile(r'^ +("(?:[^"\\]|\\.)*") \[label="((?:[^"\\]|\\.)*)"(?:, fillcolor=\w+)?\];$')


def drawn(text: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Nodes with their labels, and edges; every line must be of a known form."""
    nodes, edges = {}, []
    for line in text.splitlines():
        if found := NODE.match(line):
            nodes[found[1]] = found[2]
        elif found := EDGE.match(line):
            edges.append((found[1], found[2]))
        else:
            assert re.match(r"digraph \{|  rankdir|  node|  subgraph \"cluster_.*\{|    label=|  \}|\}", line), line
    return nodes, edges


def test_graphviz_draws_every_instruction_and_every_edge() -> None:
    program = rich()
    nodes, edges = drawn(to_graphviz(program))
    instructions = [i for m in reachable(program.main) for i in m]
    assert len(nodes) == len(instructions)
    assert len(edges) == sum(len(set(i.inputs)) for i in instructions)
    assert {end for edge in edges for end in edge} <= nodes.keys()
    assert any('node \\"one\\"' in label and "mode=max" in label for label in nodes.values())


def test_brief_graphviz_has_names_only() -> None:
    nodes, edges = drawn(to_graphviz(rich(), brief=True))
    assert {end for edge in edges for end in edge} <= nodes.keys()
    assert "pooling" in nodes.values() and not any("{" in label for label in nodes.values())
    literals = [i for i in rich().main if isinstance(i.op, Literal)]
    assert len(nodes) == len(rich().main) - len(literals)
    (branch,) = (n for n, label in nodes.items() if label.startswith("if"))
    assert len([e for e in edges if e[1] == branch]) == 2, "the flag, and what the modules capture"


@pytest.mark.parametrize("program", [rich(), dynamic()], ids=["rich", "dynamic"])
def test_netron_gets_an_onnx_model(program: Program) -> None:
    model = json_format.Parse(to_netron(program), onnx.ModelProto())
    graph = model.graph
    wanted = [i for i in program.main if not i.name.startswith("@")]
    assert [n.op_type for n in graph.node] == [i.name for i in wanted]
    assert {i.name for i in graph.input} == set(program.main.parameters)
    known = {i.name for i in (*graph.input, *graph.initializer)} | {o for n in graph.node for o in n.output}
    assert all(i in known for n in graph.node for i in n.input)
    assert all(o.name in known for o in graph.output)


def test_netron_shows_attributes_values_and_subgraphs() -> None:
    graph = json_format.Parse(to_netron(rich()), onnx.ModelProto()).graph
    by_name = {n.op_type: n for n in graph.node}
    pooling = {a.name: onnx.helper.get_attribute_value(a) for a in by_name["pooling"].attribute}
    assert pooling["mode"] == b"max" and pooling["lengths"] == [2, 2] and pooling["ceil_mode"] == 0
    assert by_name["leaky_relu"].attribute[0].f == pytest.approx(0.3)
    assert [a.g.node[-1].op_type for a in by_name["if"].attribute] == ["relu", "clip"]
    values = {t.dims[0]: t for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT and t.raw_data}
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(values[2])[1], np.array([1e-45, 0.1, -np.inf], np.float32))


def test_python_builds_an_equal_program() -> None:
    scope: dict = {}
    exec(to_python(rich()), scope)
    again = scope["p"].graph
    zeroed = [re.sub(r"@literal\{.*?\}", "", program_text(p)) for p in (again, rich())]
    assert zeroed[0] == zeroed[1]
    exec(to_python(dynamic()), scope)
    assert program_text(scope["p"].graph) == program_text(dynamic())


def test_upstream_form() -> None:
    program = rich()
    data = to_upstream(program)
    assert data["version"] == 7 and data["targets"] == data["contexts"] == []
    assert list(data["modules"]) == ["main", "then", "else"]
    nodes = data["modules"]["main"]["nodes"]
    assert [n["name"] for n in nodes] == [i.name for i in program.main]
    by_name = {n["name"]: n for n in nodes}
    assert by_name["pooling"]["operator"]["mode"] == 1, "average, max, lpnorm"
    assert TYPES[by_name["convert"]["operator"]["target_type"]] == "int32"
    assert by_name["if"]["module_inputs"] == ["then", "else"]
    seen: set[str] = set()
    for node in (n for m in data["modules"].values() for n in m["nodes"]):
        assert node["output"] not in seen and seen.issuperset(node["inputs"])
        seen.add(node["output"])


def test_json_holds_every_literal_in_memory_order() -> None:
    data = json.loads(to_json(rich()))
    literals = [n["literal"] for n in data["modules"]["main"]["nodes"] if n["name"] == "@literal"]
    (large,) = (v for v in literals if v["shape"]["lens"] == [3, 4])
    assert large["shape"]["strides"] == [1, 3]
    flat = np.frombuffer(bytes(large["data"]["bytes"]), np.float32)
    np.testing.assert_array_equal(flat, np.arange(12, dtype=np.float32))
    assert len(literals) == sum(isinstance(i.op, Literal) for i in rich().main)


def test_json_of_dynamic_shapes() -> None:
    (node,) = json.loads(to_json(dynamic()))["modules"]["main"]["nodes"]
    assert node["shape"]["dynamic_dimensions"][0] == {"min": 1, "max": 8, "optimals": [2, 4]}
    assert node["shape"]["type"] == "half_type" and node["operator"] == {"parameter": "x"}


HEADER = """
#pragma once
#include <cstddef>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>
enum type_t { TYPES };
namespace migraphx {
using Ints = std::vector<size_t>;
struct optimals { optimals(std::initializer_list<size_t>) {} };
struct dynamic_dimension { dynamic_dimension(size_t, size_t) {} dynamic_dimension(size_t, size_t, const optimals&) {} };
struct dynamic_dimensions { template <class... Ts> dynamic_dimensions(Ts...) {} };
struct shape {
    type_t type; Ints lens, strides;
    shape(type_t t, Ints l) : type(t), lens(l) {}
    shape(type_t t, Ints l, Ints s) : type(t), lens(l), strides(s) {}
    shape(type_t t, const dynamic_dimensions&) : type(t) {}
};
struct argument {
    char zeros[4096] = {};
    static argument generate(shape, size_t = 0) { return {}; }
    char* data() { return zeros; }
};
struct instruction { int n; };
struct operation {
    std::string name, attributes;
    template <class... Ts> operation(const char* n, const char* a = nullptr, Ts... xs) : name(n) {
        char text[4096] = "{}";
        if (a) snprintf(text, sizeof text, a, xs...);
        attributes = text;
    }
};
struct instructions { Ints all; template <class... Ts> instructions(Ts... xs) : all{size_t(xs.n)...} {} };
struct module {
    std::string name; int* count;
    instruction line(const std::string& what, const std::string& more, const instructions& in, const Ints& mods = {}) {
        printf("%d|%s|%s|%s|", *count, name.c_str(), what.c_str(), more.c_str());
        for (size_t i : in.all) printf("%zu ", i);
        printf("|%zu\\n", mods.size());
        return {(*count)++};
    }
    instruction add_parameter(const std::string& n, shape) { return line("@param", n, {}); }
    template <class T> instruction add_literal(const shape& s, T* p) {
        return line("@literal", std::to_string(int(((const unsigned char*)p)[0])), {});
    }
    instruction add_return(const instructions& in) { return line("@return", "", in); }
    instruction add_instruction(const operation& op, const instructions& in) {
        return line(op.name, op.attributes, in);
    }
    template <class M> instruction add_instruction(const operation& op, const instructions& in, const M& m) {
        return line(op.name, op.attributes, in, m.all);
    }
};
struct modules { Ints all; template <class... Ts> modules(const Ts&... xs) : all(sizeof...(xs)) {} };
struct program {
    std::shared_ptr<int> count = std::make_shared<int>(0);
    module get_main_module() { return {"main", count.get()}; }
    module create_module(const std::string& n) { return {n, count.get()}; }
};
}
"""


def test_cpp_compiles_and_builds_the_same_graph(tmp_path) -> None:
    """Against a header of our own that has upstream's signatures and prints every call."""
    types = ", ".join(f"migraphx_shape_{t}_type" for t in TYPES)
    (tmp_path / "migraphx").mkdir()
    (tmp_path / "migraphx" / "migraphx.hpp").write_text(HEADER.replace("TYPES", types))
    two = to_cpp(dynamic()).replace("make_program", "make_dynamic").replace("#include", "//")
    (tmp_path / "main.cpp").write_text(to_cpp(rich()) + two + "int main() { make_program(); make_dynamic(); }\n")
    binary = tmp_path / "main"
    command = [*find_compiler().command, "-std=c++17", "-O0", f"-I{tmp_path}", str(tmp_path / "main.cpp")]
    subprocess.run([*command, "-o", str(binary)], check=True)
    lines = [line.split("|") for line in subprocess.check_output([str(binary)], text=True).splitlines()][:-1]
    program = rich()
    made = [(m, name, len(inputs.split()), int(mods)) for _, m, name, _, inputs, mods in lines]
    want = [(m.name, i.name, len(i.inputs), len(i.modules)) for m in program.modules.values() for i in m]
    assert sorted(made) == sorted(want)
    attributes = {name: more for _, _, name, more, *_ in lines}
    assert json.loads(attributes["pooling"])["mode"] == 1 and json.loads(attributes["leaky_relu"]) == {"alpha": 0.3}
    first = {n: name for n, _, name, *_ in lines}
    (dot,) = (line for line in lines if line[2] == "dot")
    assert [first[i] for i in dot[4].split()] == ["add", "@literal"]
