"""Kernels take no address of memory that they made themselves.

The compiler frees an array after the last use of its name, and an address is not a use: what is
written there afterwards falls into memory that another thread may have been given meanwhile.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.style import repository

COMPILED = {"bulk", "quick", "callee"}


def kernels(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """The functions of a file that are compiled."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(map(is_compiler, node.decorator_list)):
            yield node


def is_compiler(decorator: ast.expr) -> bool:
    """Whether a decorator compiles what it stands on."""
    return not COMPILED.isdisjoint(names_in(decorator))


def names_in(tree: ast.AST) -> Iterator[str]:
    """Every name in an expression."""
    return (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def makes_array(node: ast.AST) -> bool:
    """Whether an expression is a call of numpy's."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) == "np"
    )


def own_arrays(kernel: ast.FunctionDef) -> set[str]:
    """Names that a kernel gives to arrays of its own."""
    found: set[str] = set()
    for node in ast.walk(kernel):
        if isinstance(node, ast.Assign) and any(map(makes_array, ast.walk(node.value))):
            found |= {name for target in node.targets for name in names_in(target)}
    return found


def findings(tree: ast.Module) -> list[str]:
    """Where a kernel takes the address of an array of its own."""
    found = []
    for kernel in kernels(tree):
        own = own_arrays(kernel)
        for node in ast.walk(kernel):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "address_of":
                taken = node.args[0]
                if makes_array(taken) or ast.unparse(taken) in own:
                    found.append(f"{kernel.name}: {ast.unparse(node)}")
    return found


def test_an_address_of_a_kernels_own_array_is_found() -> None:
    source = """
@bulk
def f(a):
    b, c = np.empty(3), 1
    use(address_of(np.zeros(3, np.int64)), address_of(b), address_of(a))

def g():
    use(address_of(np.zeros(3)))
"""
    assert findings(ast.parse(source)) == [
        "f: address_of(np.zeros(3, np.int64))",
        "f: address_of(b)",
    ]


def test_kernels_take_no_address_of_their_own_arrays() -> None:
    files = repository.under("src/stele/")
    assert sum(1 for name in files for _ in kernels(repository.tree(name))) > 100
    assert [(name, said) for name in files for said in findings(repository.tree(name))] == []
