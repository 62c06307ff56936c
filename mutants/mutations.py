"""Mutations: the small changes of one module, made in its syntax tree.

A mutation swaps a comparison, an operator, ``min`` and ``max``, ``any`` and ``all``, ``break`` and ``continue``;
negates or leaves out a condition; changes a number by one; returns another value; leaves out a statement, an element,
a keyword argument, a case or one of its alternatives. Annotations, messages and log lines are left alone.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

LONGEST_TEXT = 160
_ABSENT: Any = object()

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_SKIPPED_CALLS = {"TypeVar", "assert_never", "log"}
_Functions = ast.FunctionDef | ast.AsyncFunctionDef
_NO_PART = (
    ast.arguments,
    ast.AsyncFunctionDef,
    ast.AsyncWith,
    ast.ClassDef,
    ast.FunctionDef,
    ast.Match,
    ast.Module,
    ast.Try,
    ast.With,
)
"""What is not shown as a whole with a part of it."""


@dataclass(frozen=True)
class _Edit:
    """One change of one field of one node."""

    node: ast.AST
    name: str
    index: int | None
    new: Any

    def apply(self) -> "_Edit":
        """Make the change; return the edit that takes it back."""
        if self.index is None:
            old = getattr(self.node, self.name)
            setattr(self.node, self.name, self.new)
            return _Edit(self.node, self.name, None, old)
        items = list(getattr(self.node, self.name))
        undo = _Edit(self.node, self.name, None, getattr(self.node, self.name))
        if self.new is _ABSENT:
            del items[self.index]
        else:
            items[self.index] = self.new
        setattr(self.node, self.name, items)
        return undo


@dataclass(frozen=True)
class Mutation:
    """One small change of a module."""

    file: str
    function: str
    """The qualified name of the outermost function that is changed; empty for code that runs during import."""
    lines: range
    """The lines of the statement, or of the head of the compound one, that is changed."""
    before: str
    after: str
    is_called_during_import: bool
    """The top level of the module calls the function, so that what it returned is there before any test."""
    _tree: ast.Module = field(repr=False, compare=False)
    _edits: tuple[_Edit, ...] = field(repr=False, compare=False)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What identifies the mutation, also after lines have moved."""
        return self.file, self.function, self.before, self.after

    def compile(self, path: str) -> CodeType:
        """Return the code of the module with this change."""
        undo = [edit.apply() for edit in self._edits]
        try:
            return compile(ast.fix_missing_locations(self._tree), path, "exec", dont_inherit=True)
        finally:
            for edit in reversed(undo):
                edit.apply()


def mutations_of(file: str, source: str) -> list[Mutation]:
    """Return every mutation of a module, in the order of its text."""
    tree = ast.parse(source)
    finder = _Finder(file, tree)
    finder.visit_all(tree, "", in_function=False)
    return finder.found


def _called_during_import(node: ast.AST) -> Iterator[str]:
    """Yield the names that are called where no function is entered."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Call(func=ast.Name(id=name)):
                yield name
        if not isinstance(child, _Functions | ast.Lambda):
            yield from _called_during_import(child)


class _Finder:
    """Walks through a module and notes what can be changed."""

    def __init__(self, file: str, tree: ast.Module) -> None:
        self.found: list[Mutation] = []
        self._file = file
        self._tree = tree
        self._slots: dict[ast.AST, tuple[ast.AST, str, int | None]] = {}
        self._returns: list[str] = []
        self._called = frozenset(_called_during_import(tree))

    def visit_all(self, node: ast.AST, scope: str, *, in_function: bool) -> None:
        for name, value in ast.iter_fields(node):
            if name in {"annotation", "returns"} or (isinstance(node, ast.ClassDef) and name != "body"):
                continue
            is_body = isinstance(node, _Functions) and name == "body"
            for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(child, ast.AST):
                    self._slots[child] = (node, name, index)
                    self._visit(child, scope, in_function=in_function or is_body)

    def _visit(self, node: ast.AST, scope: str, *, in_function: bool) -> None:
        if _is_skipped(node):
            return
        function = scope if in_function else ""
        for edits in self._edits_of(node):
            self._note(node, function, edits)
        match node:
            case ast.ClassDef(name=name) if not in_function:
                self.visit_all(node, f"{scope}.{name}".lstrip("."), in_function=False)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self._returns.append(ast.unparse(node.returns) if node.returns else "")
                inner = scope if in_function else f"{scope}.{name}".lstrip(".")
                self._visit_function(node, scope, inner, in_function=in_function)
                self._returns.pop()
            case _:
                self.visit_all(node, scope, in_function=in_function)

    def _visit_function(self, node: _Functions, scope: str, inner: str, *, in_function: bool) -> None:
        """Visit defaults and decorators as part of what surrounds the function, the body as its own."""
        self._slots[node.args] = (node, "args", None)
        self._visit(node.args, scope, in_function=in_function)
        for index, decorator in enumerate(node.decorator_list):
            self._slots[decorator] = (node, "decorator_list", index)
            self._visit(decorator, scope, in_function=in_function)
        for index, child in enumerate(node.body):
            self._slots[child] = (node, "body", index)
            self._visit(child, inner, in_function=True)

    def _replaced(self, node: ast.AST, new: ast.AST) -> tuple[_Edit, ...]:
        return (_Edit(*self._slots[node], ast.copy_location(new, node)),)

    def _left_out(self, node: ast.stmt) -> tuple[_Edit, ...]:
        """Keep the statement where it is never reached, so that a generator stays one."""
        return self._replaced(node, ast.If(test=ast.Constant(value=False), body=[node], orelse=[]))

    def _edits_of(self, node: ast.AST) -> Iterator[tuple[_Edit, ...]]:
        match node:
            case ast.expr():
                yield from self._edits_of_expression(node)
            case ast.stmt():
                yield from self._edits_of_statement(node)
            case ast.match_case(guard=guard):
                if guard is not None and not isinstance(node.body[0], ast.Pass):
                    yield (_Edit(node, "guard", None, ast.Constant(value=True)),)
                yield (_Edit(node, "guard", None, ast.Constant(value=False)),)
            case ast.MatchOr(patterns=patterns):
                for index in range(len(patterns)):
                    if len(patterns) > 2:
                        yield (_Edit(node, "patterns", index, _ABSENT),)
                    else:
                        yield (_Edit(*self._slots[node], patterns[1 - index]),)
            case ast.comprehension(ifs=ifs):
                for index, test in enumerate(ifs):
                    yield (_Edit(node, "ifs", index, _ABSENT),)
                    yield from self._negated(node, "ifs", index, test)

    def _negated(self, node: ast.AST, name: str, index: int | None, test: ast.expr) -> Iterator[tuple[_Edit, ...]]:
        if not isinstance(test, ast.Compare | ast.BoolOp) and not _is_not(test):
            yield (_Edit(node, name, index, ast.UnaryOp(op=ast.Not(), operand=test)),)

    def _edits_of_expression(self, node: ast.expr) -> Iterator[tuple[_Edit, ...]]:
        match node:
            case ast.Compare(ops=operators):
                for index, operator in enumerate(operators):
                    yield (_Edit(node, "ops", index, _COMPARISONS[type(operator)]()),)
            case ast.BoolOp(op=operator, values=values):
                yield (_Edit(node, "op", None, ast.Or() if isinstance(operator, ast.And) else ast.And()),)
                for index in range(len(values)):
                    if len(values) > 2:
                        yield (_Edit(node, "values", index, _ABSENT),)
                    else:
                        yield self._replaced(node, values[1 - index])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._replaced(node, operand)
            case ast.IfExp(test=test):
                yield from self._negated(node, "test", None, test)
            case ast.Constant(value=bool(value)):
                yield self._replaced(node, ast.Constant(value=not value))
            case ast.Constant(value=int(value) | float(value)):
                yield self._replaced(node, ast.Constant(value=value + 1))
                yield self._replaced(node, ast.Constant(value=value - 1))
            case ast.BinOp(op=operator) if type(operator) in _OPERATORS:
                yield (_Edit(node, "op", None, _OPERATORS[type(operator)]()),)
            case ast.Call(func=function, keywords=keywords):
                if isinstance(function, ast.Name) and function.id in _FUNCTIONS:
                    yield (_Edit(node, "func", None, ast.Name(id=_FUNCTIONS[function.id], ctx=ast.Load())),)
                for index, keyword in enumerate(keywords):
                    if keyword.arg is not None:
                        yield (_Edit(node, "keywords", index, _ABSENT),)
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                if len(elements) > 1 and not self._is_target_or_type(node):
                    for index in range(len(elements)):
                        yield (_Edit(node, "elts", index, _ABSENT),)
            case ast.Dict(keys=keys):
                for index in range(len(keys)):
                    yield (_Edit(node, "keys", index, _ABSENT), _Edit(node, "values", index, _ABSENT))

    def _is_target_or_type(self, node: ast.expr) -> bool:
        parent, name, _ = self._slots[node]
        return not isinstance(getattr(node, "ctx", ast.Load()), ast.Load) or (
            isinstance(parent, ast.Subscript) and name == "slice"
        )

    def _edits_of_statement(self, node: ast.stmt) -> Iterator[tuple[_Edit, ...]]:
        match node:
            case ast.If(test=test) | ast.While(test=test):
                yield from self._negated(node, "test", None, test)
            case ast.Return(value=ast.expr() as value):
                if self._returns and self._returns[-1] == "bool":
                    for constant in (True, False):
                        if not (isinstance(value, ast.Constant) and value.value is constant):
                            yield (_Edit(node, "value", None, ast.Constant(value=constant)),)
                elif not (isinstance(value, ast.Constant) and not value.value):
                    yield (_Edit(node, "value", None, ast.Constant(value=None)),)
            case (
                ast.Expr(value=ast.Call() | ast.Await() | ast.Yield() | ast.YieldFrom()) | ast.Raise() | ast.Delete()
            ):
                yield self._left_out(node)
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield self._left_out(node)
            case ast.AugAssign(op=operator):
                yield self._left_out(node)
                if type(operator) in _OPERATORS:
                    yield (_Edit(node, "op", None, _OPERATORS[type(operator)]()),)
            case ast.Break():
                yield self._replaced(node, ast.Continue())
            case ast.Continue():
                yield self._replaced(node, ast.Break())

    def _note(self, node: ast.AST, function: str, edits: tuple[_Edit, ...]) -> None:
        shown = self._shown(node)
        owner, name, index = self._slots[shown]
        before = _text(shown)
        undo = [edit.apply() for edit in edits]
        now = getattr(owner, name)
        after = _text(now if index is None else now[index])
        for edit in reversed(undo):
            edit.apply()
        if len(before) > LONGEST_TEXT and edits[0].new is _ABSENT:
            removed = (getattr(each.node, each.name)[each.index or 0] for each in edits)
            before, after = ": ".join(_text(each) if each else "**" for each in removed), "(left out)"
        called = function in self._called
        self.found.append(Mutation(self._file, function, self._lines(node), before, after, called, self._tree, edits))

    def _lines(self, node: ast.AST) -> range:
        while not isinstance(node, ast.stmt | ast.match_case):
            node = self._slots[node][0]
        first = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
        match getattr(node, "body", None):
            case [ast.stmt(lineno=inner), *_]:
                return range(first, max(inner, first + 1))
        return range(first, (getattr(node, "end_lineno", None) or first) + 1)

    def _shown(self, node: ast.AST) -> ast.AST:
        """Return the largest part of the statement around a node that still fits in a line of a report."""
        shown = node
        while not isinstance(shown, ast.stmt | ast.match_case):
            parent = self._slots[shown][0]
            if isinstance(parent, _NO_PART) or len(_text(parent)) > LONGEST_TEXT:
                break
            shown = parent
        return shown


def _text(node: ast.AST) -> str:
    """Return the source of a node on one line, without the body of a compound statement."""
    match node:
        case ast.If(test=ast.Constant(value=False)):
            return "pass"
        case ast.If(test=test):
            return f"if {ast.unparse(test)}:"
        case ast.While(test=test):
            return f"while {ast.unparse(test)}:"
        case ast.match_case(pattern=pattern, guard=guard):
            return f"case {ast.unparse(pattern)}{f' if {ast.unparse(guard)}' if guard else ''}:"
        case ast.For(target=target, iter=iterated) | ast.AsyncFor(target=target, iter=iterated):
            return f"for {ast.unparse(target)} in {ast.unparse(iterated)}:"
        case ast.ExceptHandler(type=ast.expr() as caught):
            return f"except {ast.unparse(caught)}:"
        case ast.comprehension():
            return ast.unparse(node).strip()
    return " ".join(ast.unparse(node).split())


def _is_not(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _is_skipped(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.match_case(body=[ast.Expr(value=ast.Call(func=ast.Name(id="assert_never")))]):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id=name)))):
            return name in _SKIPPED_CALLS
        case ast.Call(func=ast.Name(id=name)):
            return name in _SKIPPED_CALLS
    return False
