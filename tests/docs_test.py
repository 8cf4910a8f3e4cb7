# SPDX-License-Identifier: Apache-2.0
"""Every command that README, docs and messages show is one that the built program has, with options it has."""
import json
import pathlib
import re
import shlex
import subprocess

from tranche_platform import TRANCHE, main

SOURCE = pathlib.Path(__file__).resolve().parent.parent
PAGES = ["README.md", "CONTRIBUTING.md", "docs/*.md", "docs/decisions/*.md", "examples/**/*.md"]
FIRST_WORDS_OF_SIGNED_TEXTS = {"journal"}  # "tranche journal export 1": what a signature stands under.
ENDS_A_COMMAND = {"&&", "||", ";", ">", ">>", "<", "|", "&", ")"}


class Tree:
    """The commands as `tranche help --json` tells them."""

    def __init__(self):
        said = subprocess.run([TRANCHE, "help", "--json"], capture_output=True, text=True, check=True).stdout
        self.root = json.loads(said)

    @staticmethod
    def child(node, name):
        return next((one for one in node["commands"] if one["name"] == name), None)

    def problem(self, words, mention):
        """What is wrong with `tranche WORDS…`; nothing: nothing. A mention may leave out what is required."""
        walk = Walk(self.root, mention)
        for word in words:
            if walk.over or walk.wrong:
                break
            walk.take(word)
        return walk.end()


class Walk:
    def __init__(self, root, mention):
        self.path, self.node, self.mention = "tranche", root, mention
        self.options = list(root["options"])
        self.positionals, self.given = 0, set()
        self.wrong, self.over, self.value_of = None, False, None

    def take(self, word):
        if self.value_of:
            self.value_of = None
        elif word == "--":
            self.positionals += 1
            self.over = True
        elif word in ("-h", "--help"):
            self.mention = self.over = True
        elif is_left_open(word):  # Whatever stands there.
            self.mention = True
        elif word.startswith("-") and len(word) > 1:
            self.take_option(word)
        else:
            self.take_word(word)

    def take_option(self, word):
        name, _, value = word.partition("=")
        for own in ([name] if name.startswith("--") else ["-" + letter for letter in name[1:]]):
            option = next((one for one in self.options if own in one["names"]), None)
            if option is None:
                self.wrong = f"{self.path} has no option {own}"
                return
            self.given.add(option["names"][0])
            # A value that may be left out is written with a '='.
            self.value_of = option if option["value"] and not value and name not in ("--wait", "--watch") else None

    def take_word(self, word):
        alternatives = [Tree.child(self.node, name) for name in word.split("|")]
        if self.node["commands"] and all(alternatives):
            self.node = alternatives[0]
            self.path += " " + self.node["name"]
            self.options += self.node["options"]
            if len(alternatives) > 1:
                self.mention = True
            return
        if self.node["commands"] and not any(one["positional"] for one in self.node["options"]):
            if word.isupper():  # tranche COMMAND --help
                self.mention = self.over = True
            else:
                self.wrong = f"there is no command '{self.path} {word}'"
            return
        self.positionals += 1

    def end(self):
        if self.wrong:
            return self.wrong
        own = [one for one in self.node["options"] if one["positional"]]
        if self.positionals > len(own) and not any(one["many"] for one in own):
            return f"{self.path} does not take so many words"
        if self.mention:
            return None
        if self.value_of:
            return f"{self.path} {self.value_of['names'][0]} needs a value"
        if self.positionals < sum(one["required"] for one in own):
            return f"{self.path} needs more words"
        missing = [one["names"][0] for one in self.options
                   if one["required"] and not one["positional"] and one["names"][0] not in self.given]
        return f"{self.path} needs {missing[0]}" if missing else None


def is_left_open(word):
    return "…" in word or "..." in word


def split(line):
    """The words of the first command of a line, as a shell would split them; comments and what follows left out."""
    line = re.sub(r"\$\([^()]*\)", "SUBSTITUTED", line)
    line = re.sub(r"\[(-[^\]]*)\]", r"\1", line)  # [--from S] may be left out, and so may the end of FILE[.gz].
    line = re.sub(r"(?<=\w)\[[^\]]*\]", "", line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";<>&")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words = []
    for word in lexer:
        if word in ENDS_A_COMMAND:
            break
        words.append(word)
    return words


def block_lines(text):
    """Lines of fenced and indented blocks, continued lines joined; with the number of the line."""
    fenced, joined, start = False, "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            continue
        if not joined and not fenced and not line.startswith("    "):
            continue
        start = start if joined else number
        if line.endswith("\\"):
            joined += line[:-1] + " "
            continue
        yield start, (joined + line).strip()
        joined = ""


def pages():
    return sorted({file for pattern in PAGES for file in SOURCE.glob(pattern)})


def shown_commands():
    """(place, words, whether it is a mention in the text) of every command that the pages show."""
    for page in pages():
        text = page.read_text()
        name = page.relative_to(SOURCE)
        for number, line in block_lines(text):
            line = re.sub(r"^(\$ |# )?(build/\w+/)?tranche ", "tranche ", line)
            if line.startswith("tranche ") and "──" not in line:
                # `book list | show ID | cancel ID`: verbs of one noun, side by side.
                for one in alternatives(line):
                    yield f"{name}:{number}", split(one)[1:], False
        for number, line in enumerate(text.splitlines(), 1):
            for said in re.findall(r"`tranche ([^`]+)`", line):
                yield f"{name}:{number}", split(said.replace("\\|", "|")), True


def alternatives(line):
    first, *more = re.split(r" \| ", line.split(" #")[0])
    noun = " ".join(first.split()[:2])
    return [first] + [f"{noun} {one}" for one in more]


def pages_show_commands_that_exist():
    """Each command line in README and docs parses: the command, its options, and what it needs."""
    tree, wrong, seen = Tree(), [], 0
    for place, words, mention in shown_commands():
        seen += 1
        if problem := tree.problem(words, mention):
            wrong.append(f"{place}: tranche {shlex.join(words)}\n    {problem}")
    assert seen > 250, f"only {seen} commands were found: is the reader of the pages broken?"
    assert not wrong, "\n" + "\n".join(wrong)
    return f"{seen} commands"


def messages_name_commands_that_exist():
    """What a refusal or a hint tells people to type next is a command."""
    tree, wrong, seen = Tree(), [], 0
    for file in sorted((SOURCE / "src").rglob("*.cpp")):
        if file.name.endswith("_test.cpp"):
            continue
        text = re.sub(r'"\s*\n\s*"', "", file.read_text())  # Literals that go on in the next line.
        for literal in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text):
            for said in re.findall(r"(?:^|[\s:('])tranche ((?:[a-z][a-z-]* ?){1,2})", literal):
                words = said.split()
                node = Tree.child(tree.root, words[0])
                if words[0] in FIRST_WORDS_OF_SIGNED_TEXTS:
                    continue
                if node is None and not re.search(r"(: |\$ |^|try |give )tranche " + re.escape(words[0]), literal):
                    continue  # "the tranche server": a noun of the text.
                seen += 1
                if node is None:
                    wrong.append(f"{file.relative_to(SOURCE)}: there is no 'tranche {words[0]}': {literal[:100]}")
                elif node["commands"] and len(words) > 1 and not any(one["positional"] for one in node["options"]) \
                        and Tree.child(node, words[1]) is None:
                    wrong.append(f"{file.relative_to(SOURCE)}: there is no 'tranche {' '.join(words)}': {literal[:100]}")
    assert seen > 100, f"only {seen} commands were found"
    assert not wrong, "\n" + "\n".join(wrong)
    return f"{seen} commands"


def anchors_of(page):
    """Headings as the sites that show Markdown name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links_lead_somewhere():
    """Every link from page to page, and to a heading of one, has something at its end."""
    wrong, seen = [], 0
    for page in pages():
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if re.match(r"\w+:", target):  # Of another site.
                continue
            seen += 1
            file, _, anchor = target.partition("#")
            there = (page.parent / file).resolve() if file else page
            if not there.exists() or (anchor and anchor not in anchors_of(there)):
                wrong.append(f"{page.relative_to(SOURCE)}: {target}")
    assert seen > 80, seen
    assert not wrong, "\n" + "\n".join(wrong)
    return f"{seen} links"


def every_page_is_found():
    """docs/README.md leads to each page, and README.md leads there."""
    index = (SOURCE / "docs/README.md").read_text()
    lost = [page.name for page in (SOURCE / "docs").glob("*.md") if f"({page.name})" not in index]
    assert lost == ["README.md"], lost
    assert "(docs/README.md)" in (SOURCE / "README.md").read_text()


def routes_exist():
    """Every /v1/… that the pages show is a route."""
    rooms = [file for room in ("api", "server", "app") for file in (SOURCE / "src" / room).glob("*.cpp")]
    known = re.findall(r'"(/v1/[^"?]+)"', "".join(file.read_text() for file in rooms))
    known = [re.compile(re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(route)) + "$") for route in known]
    wrong, seen = [], 0
    for page in pages():
        for route in re.findall(r"(?<![\w.])/v1/[\w{}/.-]+\w\}?", page.read_text()):
            seen += 1
            if not any(one.match(route) for one in known):
                wrong.append(f"{page.relative_to(SOURCE)}: {route}")
    assert seen > 10, seen
    assert not wrong, "\n" + "\n".join(wrong)
    return f"{seen} routes"


def promises_name_tests_that_exist():
    """Each test that docs/guarantees.md gives for a promise is there, and each case of it."""
    programs = {file.stem: file.read_text() for file in (SOURCE / "tests").glob("*.py")}
    rooms = {file.stem: file.parent.name for file in (SOURCE / "src").rglob("*_test.cpp")}
    wrong, seen = [], 0
    for line in (SOURCE / "docs/guarantees.md").read_text().splitlines():
        script = None  # The cases after a script are of it.
        for said in re.findall(r"`([^`]+)`", line) if line.startswith("|") else []:
            told = re.fullmatch(r"(?:tests/)?(\w+)\.py(?: (\w+)(…?))?", said)
            script = told[1] if told else script
            room, _, name = said.rpartition(": ")
            case = told[2] if told else said if script and re.fullmatch(r"[a-z]+(_[a-z0-9]+)+", said) else None
            if told and told[1] not in programs:
                wrong.append(said)
            elif case and name not in rooms:
                end = "" if told and told[3] else r"\("
                seen += 1
                if not re.search(rf"^def {case}{end}", programs[script], re.MULTILINE):
                    wrong.append(f"{script}.py {case}")
            elif name.endswith("_test"):
                seen += 1
                if name not in rooms or (room and rooms[name] != room):
                    wrong.append(said)
    assert seen > 100, seen
    assert not wrong, wrong
    return f"{seen} tests"


def wrong_commands_are_found():
    """The reader itself can fail: commands and options that do not exist are named."""
    tree = Tree()
    for line, told in (("tranche tennant list", "there is no command 'tranche tennant'"),
                       ("tranche quota sett acme", "there is no command 'tranche quota sett'"),
                       ("tranche run --gpu 1 -- x", "tranche run has no option --gpu"),
                       ("tranche ps --state", "tranche ps --state needs a value"),
                       ("tranche show", "tranche show needs more words"),
                       ("tranche whoami me", "tranche whoami does not take so many words")):
        assert tree.problem(split(line)[1:], False) == told, (line, tree.problem(split(line)[1:], False))


main([pages_show_commands_that_exist, messages_name_commands_that_exist, links_lead_somewhere, every_page_is_found,
      routes_exist, promises_name_tests_that_exist, wrong_commands_are_found])
