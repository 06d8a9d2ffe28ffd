"""Prompt templates: sandboxed Jinja2 files, found in the user's folders first and
checked before a run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import (
    Callable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from dataclasses import dataclass
from functools import lru_cache
from operator import not_
from pathlib import Path, PurePosixPath
from secrets import token_hex
from types import CodeType
from typing import Any, NoReturn

from jinja2 import (
    BaseLoader,
    Environment,
    StrictUndefined,
    Template,
    TemplateError,
    TemplateNotFound,
    meta,
    nodes,
)
from jinja2.exceptions import TemplateSyntaxError

from evalkit.core.bounded_files import read_yaml
from evalkit.core.errors import PromptError, did_you_mean
from evalkit.core.regular_files import read_file
from evalkit.core.resources import shipped
from evalkit.core.types import Message
from evalkit.evaluators.prompting.bounds import (
    BoundedEnvironment,
    BoundError,
    bounded,
    joined,
)

_PART = "; "
_EXHAUSTED = (RecursionError, MemoryError, SyntaxError)
"""What Python raises for a template that is nested too deeply; Jinja's own errors of syntax are
others."""


@dataclass(frozen=True, slots=True)
class Reasons:
    """A catalog of reasons: English regular expressions and translations in which
    `{name}` is a group's text.

    `otherwise` replaces a reason that the catalog does not contain, so that no message mixes two
    languages.
    """

    translations: tuple[tuple[re.Pattern[str], str], ...]
    otherwise: str

    @classmethod
    def parse(cls, text: str, location: str) -> Reasons:
        """Read a catalog.

        Raises:
            PromptError: If the text is not a catalog.
        """
        try:
            catalog = read_yaml(text)
            translations = tuple(
                (re.compile(pattern), str(translation))
                for pattern, translation in catalog["reasons"].items()
            )
            return cls(translations, str(catalog["otherwise"]))
        except (ValueError, re.error, TypeError, KeyError, AttributeError) as error:
            problem = f"not a catalog of reasons: {error}"
            raise PromptError(
                problem,
                where=location,
                remedy="set 'reasons' (a mapping) and 'otherwise'",
            ) from None

    def translate(self, reason: str) -> str:
        """Return a reason, or several joined by semicolons, in the catalog's language."""
        whole = self._one(reason)
        if whole is not None:
            return whole
        # A reason may itself contain a semicolon, so the whole was tried first.
        parts = [self._one(part) for part in reason.split(_PART)]
        if None not in parts:
            return "；".join(part for part in parts if part is not None)
        return self.otherwise

    def _one(self, reason: str) -> str | None:
        for pattern, translation in self.translations:
            if match := pattern.fullmatch(reason):
                return translation.format_map(self._groups(match))
        return None

    def _groups(self, match: re.Match[str]) -> Mapping[str, str]:
        """Return the groups of a match; the group `rest` is itself a reason, so translate it."""
        groups = {name: text or "" for name, text in match.groupdict().items()}
        if "rest" in groups:
            groups["rest"] = self.translate(groups["rest"])
        return groups


def _environment(loader: BaseLoader | None = None) -> Environment:
    return BoundedEnvironment(
        loader=loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )


# Each job of a sweep has an environment of its own; what only depends on a template's text is found
# once.
_SYNTAX = _environment()


@lru_cache(maxsize=256)
def _compiled(source: str, name: str, path: str) -> CodeType:
    return _SYNTAX.compile(source, name, path)


@lru_cache(maxsize=256)
def _names_in(source: str, path: str) -> tuple[frozenset[str], tuple[str | None, ...]]:
    """Return the placeholders in the text of a template and the templates that it
    extends or includes.
    """
    tree = _SYNTAX.parse(source, path)
    return frozenset(meta.find_undeclared_variables(tree)), tuple(
        meta.find_referenced_templates(tree)
    )


_SHIPPED = "shipped/"


class TemplateFiles(BaseLoader):
    """Template files by name, each read once and hashed; the last of `folders` contains
    the shipped templates.

    `recorded` is the text of templates by name. Recorded templates take precedence over files.
    """

    def __init__(
        self, folders: Sequence[Path], recorded: Mapping[str, str] | None = None
    ) -> None:
        self.recorded = recorded or {}
        self.hashes: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self._folders = folders
        self._admitted: dict[str, Path] = {}
        self._sources: dict[str, tuple[str, Path]] = {}

    def admit(self, path: Path) -> str:
        """Add a file outside the folders and return its name, the absolute path."""
        self._admitted[path.as_posix()] = path
        return path.as_posix()

    def find(self, name: str) -> Path | None:
        """Return the file with a name, or `None`; the path of a recorded template is not a file."""
        if name in self.recorded:
            return Path(name)
        if name in self._admitted:
            return self._admitted[name]
        # A template may come from someone else: it can include only files of these folders.
        inside = PurePosixPath(name.removeprefix(_SHIPPED))
        if inside.is_absolute() or ".." in inside.parts:
            return None
        folders = self._folders[-1:] if name.startswith(_SHIPPED) else self._folders
        return next(
            (folder / inside for folder in folders if (folder / inside).is_file()), None
        )

    def place(self, name: str, line: int | None) -> str:
        """Return the file and line for an error message."""
        path = self.find(name) or name
        if line:
            return f"{path}:{line}"
        return str(path)

    def source(self, name: str) -> str:
        """Return the text of a template."""
        return self._load(name)[0]

    def get_source(
        self,
        environment: Environment,  # noqa: ARG002
        template: str,
    ) -> tuple[str, str, Callable[[], bool]]:
        """Return source, path and freshness check, as Jinja requires of a loader."""
        source, path = self._load(template)
        # Always fresh: a file that changes during a run must not change its prompts.
        return source, str(path), lambda: True

    def load(
        self,
        environment: Environment,
        name: str,
        globals: MutableMapping[str, Any] | None = None,  # noqa: A002
    ) -> Template:
        """Return a template, compiled once for all environments."""
        source, path = self._load(name)
        variables = {} if globals is None else globals
        return environment.template_class.from_code(
            environment, _compiled(source, name, str(path)), variables
        )

    def _load(self, name: str) -> tuple[str, Path]:
        """Return the text and the path of a template, and record its hash; each file is read once.

        Raises:
            TemplateNotFound: If there is no such template.
            PromptError: If it cannot be read.
        """
        if name not in self._sources:
            path = self.find(name)
            if path is None:
                raise TemplateNotFound(name)
            try:
                if name in self.recorded:
                    text = self.recorded[name]
                else:
                    text = read_file(path).decode("utf-8-sig")
            except UnicodeDecodeError as error:
                problem = f"the byte at offset {error.start} is not UTF-8"
                raise PromptError(
                    problem, where=str(path), remedy="save the file as UTF-8"
                ) from None
            except OSError as error:
                raise PromptError(
                    f"cannot be read ({error.strerror})", where=str(path)
                ) from None
            self._sources[name] = text, path
            # The absolute path of a file is of this machine only, and is not recorded.
            recorded_name = path.name if name in self._admitted else name
            self.hashes[recorded_name] = hashlib.sha256(
                text.encode("utf-8", "surrogatepass")
            ).hexdigest()
            self.texts[recorded_name] = text
        return self._sources[name]


# The mark of a hole is random, so that no text of a case can contain it.
_HOLE = f"\0{token_hex(8)}:"
_PIECES = re.compile(rf"{_HOLE}(\w+)\0")
# These nodes can change, repeat or read the text inside them.
_OPAQUE = (
    nodes.AssignBlock,
    nodes.CallBlock,
    nodes.Extends,
    nodes.FilterBlock,
    nodes.FromImport,
    nodes.Import,
    nodes.Include,
    nodes.Macro,
    nodes.ScopedEvalContextModifier,
)


@lru_cache(maxsize=256)
def _only_inserts(source: str, path: str, texts: frozenset[str]) -> bool:
    """Return whether a template only inserts `texts` and tests whether they are empty."""
    tree = _SYNTAX.parse(source, path)
    if next(tree.find_all(_OPAQUE), None) is not None:
        return False
    # By identity: the same name may occur in a harmless place and in another one.
    plain = {
        id(part) for output in tree.find_all(nodes.Output) for part in output.nodes
    }
    plain |= {id(branch.test) for branch in tree.find_all(nodes.If)}
    names = [
        name
        for name in tree.find_all(nodes.Name)
        if name.name in texts or name.name in ("self", "super")
    ]
    return all(id(name) in plain and name.ctx == "load" for name in names)


class PrefilledTemplate:
    """A template to fill with the texts of many cases.

    Args:
        render: Fills the template with texts by placeholder.
        in_pieces: Whether Jinja needs to render the text around the placeholders only once for each
            combination of empty ones; see `_only_inserts`.
    """

    def __init__(
        self,
        render: Callable[[Mapping[str, str]], tuple[Message, ...]],
        *,
        in_pieces: bool,
    ) -> None:
        self._render, self._in_pieces = render, in_pieces
        self._known: dict[tuple[bool, ...], list[tuple[Message, list[str]]]] = {}

    def fill(self, **texts: str) -> tuple[Message, ...]:
        """Return the messages with these texts.

        Every call must use the same names in the same order.

        Raises:
            PromptError: If the template cannot be filled.
        """
        if not self._in_pieces:
            return self._render(texts)
        # Which texts are empty decides the branches of the template, so each combination is
        # rendered once.
        empty = tuple(map(not_, texts.values()))
        if empty not in self._known:
            holes = {
                name: f"{_HOLE}{name}\0" if text else "" for name, text in texts.items()
            }
            rendered = self._render(holes)
            self._known[empty] = [
                (message, _PIECES.split(message["content"])) for message in rendered
            ]
        filled = []
        for message, pieces in self._known[empty]:
            if len(pieces) > 1:
                pieces = pieces.copy()
                # `split` by a pattern with a group alternates: text at even indexes, names of
                # holes at odd ones.
                pieces[1::2] = map(texts.__getitem__, pieces[1::2])
                message = Message(role=message["role"], content="".join(pieces))
            # An empty system message is dropped, as in `_rendered_messages`.
            if message["role"] == "user" or message["content"].strip():
                filled.append(message)
        return tuple(filled)


SUFFIX = ".md.j2"
RETRY, FALLBACK, REASONS = "retry", "en", "reasons.yaml"
_JINJA_NAMES = {"super", "self", "caller", "varargs", "kwargs"}


class Prompts:
    """The templates of one language.

    A template has a block `system`, which is the same for all cases so that providers can cache it,
    and a block `user`. A template without blocks is one user message. `folders` are searched in
    order, then the shipped templates, each for `<language>/<name>.md.j2`. A template can extend a
    shipped one, for example `shipped/en/pairwise.md.j2`.

    Args:
        language: The folder of the templates, such as `en`.
        folders: The user's folders of prompts; they need not exist.
        recorded: The text of templates by name, from a run folder; these take precedence over all
            files.
        optional: The names of templates that fall back to English.
    """

    def __init__(
        self,
        language: str,
        folders: Sequence[Path] = (),
        recorded: Mapping[str, str] | None = None,
        optional: Iterable[str] = (),
    ) -> None:
        self.language = language
        self._folders = (*(Path(folder) for folder in folders), shipped("prompts"))
        self._files = TemplateFiles(self._folders, recorded)
        self._environment = _environment(self._files)
        self._reasons: Reasons | None = None
        self._optional = {RETRY, *optional}
        self._checked: dict[tuple[str, frozenset[str]], Template] = {}

    def render(self, name: str, **variables: Any) -> tuple[Message, ...]:
        """Fill a template, which is a name or the path of a file, and return its messages.

        Raises:
            PromptError: If it cannot be found, parsed or filled; reports the file, the line and the
                placeholders.
        """
        template = self._checked_template(name, frozenset(variables))
        try:
            with bounded():
                return tuple(_rendered_messages(template, variables))
        except (
            TemplateError,
            TypeError,
            ValueError,
            ArithmeticError,
            LookupError,
            *_EXHAUSTED,
        ) as error:
            _raise_prompt_error(error, self._files, variables)

    def partial(
        self, name: str, texts: Sequence[str], **fixed: Any
    ) -> PrefilledTemplate:
        """Return a template with everything filled in except `texts`, the placeholders
        that depend on the case.

        Raises:
            PromptError: If it cannot be found or parsed.
        """
        self._checked_template(name, frozenset({*texts, *fixed}))
        path = self._path(name)
        # A template is filled for every request: where it is safe, Jinja renders it only once.
        in_pieces = _only_inserts(self._files.source(path), path, frozenset(texts))
        return PrefilledTemplate(
            lambda values: self.render(name, **fixed, **values), in_pieces=in_pieces
        )

    def instruction(self, name: str, **variables: Any) -> str:
        """Return the text of a template that is part of a message; falls back to English.

        Raises:
            PromptError: As for `render`.
        """
        self._optional.add(name)
        return self.render(name, **variables)[-1]["content"].strip()

    def uses(self, name: str, placeholder: str) -> bool:
        """Return whether a template, or one that it extends or includes, has a placeholder.

        Raises:
            PromptError: If it cannot be found or parsed.
        """
        paths = [self._path(name)]
        visited = set[str]()
        try:
            # `paths` grows inside the loop, by the templates that it extends or
            # includes
            for path in paths:
                placeholders, references = _names_in(self._files.source(path), path)
                if placeholder in placeholders:
                    return True
                visited.add(path)
                paths += [
                    reference
                    for reference in references
                    if reference and reference not in visited
                ]
        except (TemplateError, *_EXHAUSTED) as error:
            _raise_prompt_error(error, self._files, ())
        return False

    def retry(self, error: str) -> str:
        """Return the message that asks a judge again after an unusable answer.

        The message and the reason `error` are in the judge's language, or in English if there is no
        such template.

        Raises:
            PromptError: As for `render`.
        """
        return self.render(RETRY, error=self._translate_error(error))[-1]["content"]

    def _translate_error(self, error: str) -> str:
        """Return an error in the prompt's language; in English without its translations."""
        path = f"{self.language}/{REASONS}"
        # Without both files, the message would mix two languages.
        if self._files.find(path) is None or not self._files.find(
            f"{self.language}/{RETRY}{SUFFIX}"
        ):
            return error
        if self._reasons is None:
            self._reasons = Reasons.parse(
                self._files.source(path), self._files.place(path, None)
            )
        return self._reasons.translate(error)

    def place(self, name: str) -> str:
        """Return the location of a template for an error message."""
        return self._files.place(self._path(name), None)

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of each template file used so far, by its path below its folder."""
        return dict(sorted(self._files.hashes.items()))

    def texts(self) -> dict[str, str]:
        """Return the text of each template file used so far, by the same names as `hashes`."""
        return dict(sorted(self._files.texts.items()))

    def _checked_template(self, name: str, allowed: frozenset[str]) -> Template:
        """Return a template that needs no other placeholders than `allowed`.

        Raises:
            PromptError: If it needs others, or is not a valid template.
        """
        # Checked once for each set of placeholders: a template may be valid for one mode only.
        if (name, allowed) not in self._checked:
            path = self._path(name)
            try:
                template = self._environment.get_template(path)
                self._check_template(path, allowed)
            except (TemplateError, *_EXHAUSTED) as error:
                _raise_prompt_error(error, self._files, allowed)
            self._checked[name, allowed] = template
        return self._checked[name, allowed]

    def _path(self, name: str) -> str:
        if name.endswith(".j2") or "/" in name or name in self._files.recorded:
            return self._template_file(name)
        for language in (
            self.language,
            *([FALLBACK] if name in self._optional else []),
        ):
            if self._files.find(path := f"{language}/{name}{SUFFIX}"):
                return path
        raise self._missing_template_error(name, f"{self.language}/{name}{SUFFIX}")

    def _template_file(self, name: str) -> str:
        """Return the name by which the environment loads a file of the user.

        Raises:
            PromptError: If there is no such file.
        """
        path = Path(name).expanduser()
        if path.name in self._files.recorded:
            return path.name
        # As named from the current folder first, then below the prompts' folders.
        for candidate in (path, *(folder / path for folder in self._folders)):
            if candidate.is_file():
                return self._files.admit(candidate.resolve())
        remedy = (
            "give the path of a template, "
            "or a name without folder and suffix, such as pairwise"
        )
        raise PromptError(
            f"file '{name}' not found", where="prompt.template", remedy=remedy
        )

    def _missing_template_error(self, name: str, path: str) -> PromptError:
        """Return the error for a missing template, with the languages or names that exist."""
        languages = {
            file.parent.name
            for folder in self._folders
            for file in folder.glob(f"*/{name}{SUFFIX}")
        }
        if languages:
            problem = f"no prompts in '{self.language}' for '{name}'"
            names = languages
            where = "prompt.language"
        else:
            problem = f"no template '{name}'"
            where = "prompt.template"
            names = {
                file.name.removesuffix(SUFFIX)
                for folder in self._folders
                for file in folder.glob(f"*/*{SUFFIX}")
            }
        hint = did_you_mean(self.language if languages else name, names)
        # A hint is a question, or a list of the names.
        if hint.startswith("did"):
            remedy = f"{hint} if not, write prompts/{path}"
        else:
            remedy = f"{hint}, or write prompts/{path}"
        return PromptError(problem, where=where, remedy=remedy)

    def _check_template(self, path: str, allowed: frozenset[str]) -> None:
        """Raise if the template has a placeholder that is not `allowed`.

        Templates that it extends or includes are checked, too.
        """
        source = self._files.source(path)
        placeholders, references = _names_in(source, path)
        if (
            unknown := placeholders
            - allowed
            - _JINJA_NAMES
            - set(self._environment.globals)
        ):
            # Parsed again only for an error: the cache has no lines.
            names = _SYNTAX.parse(source, path).find_all(nodes.Name)
            uses = [
                node for node in names if node.ctx == "load" and node.name in unknown
            ]
            first = min(uses, key=lambda node: node.lineno)
            raise _unknown(self._files.place(path, first.lineno), first.name, allowed)
        for reference in references:
            if reference is not None:
                try:
                    self._environment.get_template(reference)
                except TemplateNotFound:
                    raise self._missing_reference_error(
                        path, _SYNTAX.parse(source, path), reference
                    ) from None
                self._check_template(reference, allowed)

    def _missing_reference_error(
        self, path: str, tree: nodes.Template, reference: str
    ) -> PromptError:
        """Return the error for a template that extends or includes one that does not exist."""
        statements = tree.find_all(
            (nodes.Extends, nodes.Include, nodes.Import, nodes.FromImport)
        )
        lines = [
            node.lineno
            for node in statements
            if reference in (part.value for part in node.find_all(nodes.Const))
        ]
        remedy = (
            f"name one as <language>/<name>{SUFFIX}, or a shipped one as"
            f" shipped/en/pairwise{SUFFIX}"
        )
        where = self._files.place(path, min(lines, default=None))
        return PromptError(
            f"template '{reference}' not found", where=where, remedy=remedy
        )


def _rendered_messages(
    template: Template, variables: dict[str, Any]
) -> Iterator[Message]:
    """Yield the messages of a template: its blocks, or all of it as a message of the user."""
    # Rendering the root makes Jinja collect the blocks of the templates that this one extends.
    context = template.new_context(variables)
    whole = joined(template.root_render_func(context))
    # A template without blocks is one user message.
    if "user" not in context.blocks:
        yield {"role": "user", "content": whole}
        return
    for role in ("system", "user"):
        if role in context.blocks:
            content = joined(context.blocks[role][0](context))
        else:
            content = ""
        if role == "user" or content.strip():
            yield {"role": role, "content": content}


def _raise_prompt_error(
    error: Exception, files: TemplateFiles, allowed: Iterable[str]
) -> NoReturn:
    """Raise `error`, of filling a template, as a `PromptError` with the file and line.

    Args:
        error: The exception of Jinja, or of a bound.
        files: Knows the path of each template.
        allowed: The placeholders that a template may use.

    Raises:
        PromptError: Always.
    """
    if isinstance(error, TemplateNotFound):
        raise PromptError(
            f"template '{error.name}' not found",
            where="prompt",
            remedy="give it as <language>/<name>.md.j2",
        ) from None
    if isinstance(error, TemplateSyntaxError):
        location = files.place(error.name or error.filename or "", error.lineno)
        raise PromptError(
            f"not a Jinja template: {error.message}",
            where=location,
            remedy="fix the template",
        ) from None
    if isinstance(error, (BoundError, *_EXHAUSTED)):
        if isinstance(error, BoundError):
            problem = str(error)
        else:
            problem = "it is nested too deeply or calls itself"
        raise PromptError(
            f"cannot be filled: {problem}",
            where=_line(error),
            remedy="simplify the template",
        ) from None
    raise PromptError(
        f"cannot be filled: {error}",
        where=_line(error),
        remedy=f"the placeholders are {', '.join(sorted(allowed))}",
    ) from None


def _unknown(where: str, name: str, allowed: frozenset[str]) -> PromptError:
    placeholders = ", ".join(sorted(allowed))
    close = did_you_mean(name, allowed)
    if close.startswith("did"):
        hint = f"{close} the placeholders are {placeholders}"
    else:
        hint = f"use one of {placeholders}"
    return PromptError(f"unknown placeholder '{name}'", where=where, remedy=hint)


def _line(error: Exception) -> str:
    """Return the file and line of the innermost template in an error's traceback."""
    location = "prompt"
    # The last frame of a template is the innermost, so the loop goes on to the end.
    step = error.__traceback__
    while step is not None:
        template = step.tb_frame.f_globals.get("__jinja_template__")
        if template is not None:
            location = f"{template.filename}:{template.get_corresponding_lineno(step.tb_lineno)}"
        step = step.tb_next
    return location
