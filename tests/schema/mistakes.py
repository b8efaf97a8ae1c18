"""A dataset file without a mistake, and mistakes in it: what to change, the line it is told with, part of the words."""

STAYS = """\
format = 1
dataset = "hospital-stays"
[source]
kind = "parquet"
table = "stays"
[unit]
protects = "person"
id = "patient_id"
rows = 4
neighbours = "add-remove"
size = 200_000
[columns.sex]
kind = "category"
labels = [
  "female",
  "male",
]
[columns.age]
kind = "integer"
lower = 0
upper = 110
bins = [0, 18, 65, 110]
[columns.stay]
kind = "number"
lower = "0"
upper = 365
step = 0.25
bins = ["0", 1, 3.5, "365"]
[columns.admitted]
kind = "date"
lower = 2020-01-01
upper = 2026-12-31
bins = "month"
[columns.emergency]
kind = "boolean"
"""

SYNTAX = (
    ("format = 1", "format 1", 1, "this is not TOML: expected '='"),
    ('kind = "parquet"', 'kind = "parquet', 4, "this is not TOML: illegal character"),
    ('kind = "parquet"', "kind = parquet", 4, "this is not TOML: invalid value"),
    ("rows = 4", "rows = 4\nrows = 5", 10, "this is not TOML: cannot overwrite a value"),
    ("[columns.emergency]", "[columns.age]", 34, "this is not TOML: cannot declare"),
    ("[columns.emergency]", "[columns.emergency", 34, "this is not TOML: expected ']'"),
    ('kind = "boolean"', 'kind = ["boolean"', 35, "this is not TOML: unclosed array before the file ends"),
    ('kind = "boolean"', 'kind = """boolean', 35, "this is not TOML: unterminated string before the file ends"),
    ("lower = 2020-01-01", "lower = 2020-02-30", 31, "this is not TOML: invalid date or datetime"),
    ("size = 200_000", "size = 200__000", 11, "this is not TOML"),
)

SOURCE_AND_UNIT = (
    ('[source]\nkind = "parquet"\ntable = "stays"\n', "", 1, 'source is missing; write [source] with table = "stays"'),
    ('[source]\nkind = "parquet"\ntable = "stays"\n', 'source = "x"\n', 3, "source is a text; write a table"),
    ('table = "stays"\n', "", 3, 'source.table is missing; write table = "stays"'),
    ('table = "stays"', "table = 3", 5, "source.table is a whole number; write a text"),
    ('table = "stays"', 'table = " "', 5, 'source.table is empty; write table = "stays"'),
    ('table = "stays"', 'table = "my stays"', 5, "source.table is not accepted: for each part of the name"),
    ('table = "stays"', 'table = "a.b.c"', 5, "source.table is not accepted"),
    ('protects = "person"', 'protects = "people"', 7, 'unit.protects = "people" is not known; write "row" or "person"'),
    ('protects = "person"', 'protects = "persn"', 7, "(did you mean person?)"),
    ('protects = "person"', "protects = true", 7, "unit.protects is true or false; write a text"),
    ('protects = "person"\n', "", 6, 'unit.protects is missing; write protects = "row" or "person"'),
    ('id = "patient_id"\n', "", 6, 'unit.id is missing; write id = "patient_id"'),
    ('id = "patient_id"', 'id = ""', 8, "unit.id is empty"),
    ('id = "patient_id"', 'id = "AGE"', 8, "unit.id is a column too; remove [columns.age]"),
    ('id = "patient_id"', 'id = "a\\u0000b"', 8, "unit.id is not accepted: write the name of the column"),
    ("rows = 4\n", "", 6, "unit.rows is missing; write rows = 4"),
    ("rows = 4", "rows = 0", 9, "unit.rows = 0 is out of range; write a whole number from 1 to 10^6"),
    ("rows = 4", 'rows = "4"', 9, "unit.rows is a text; write a whole number, such as rows = 4"),
    ("rows = 4", "rows = 4.0", 9, "unit.rows is a number; write a whole number"),
    ("rows = 4", "row = 4", 6, "unit.rows is missing"),
    (
        '"add-remove"',
        '"add_remove"',
        10,
        '"add_remove" is not known; write "add-remove" or "replace" (did you mean add-',
    ),
    ('neighbours = "add-remove"\n', "", 6, "unit.neighbours is missing"),
    ("size = 200_000", "size = -1", 11, "unit.size = -1 is out of range"),
    ("size = 200_000", "size = 10_000_000_000_000_000", 11, "is out of range; write a whole number from 1 to 10^15"),
    ("size = 200_000", "size = true", 11, "unit.size is true or false; write a whole number"),
    ("size = 200_000\n", "", 6, "unit.size is missing; write size = 200_000"),
    (
        "size = 200_000",
        "size = 200_000\nsise = 3",
        12,
        "unit.sise is not known (did you mean size?); the keys here are",
    ),
)

COLUMNS = (
    (
        "[columns.emergency]",
        "[columns.Age]",
        34,
        "columns.Age has the name of columns.age; capitals make no difference",
    ),
    ("[columns.emergency]", '[columns."in emergency"]', 34, 'columns."in emergency" is no name: write letters'),
    ("[columns.emergency]", "[columns.2nd]", 34, "columns.2nd is no name"),
    (
        "[columns.emergency]",
        "[columns]\nweight = 3\n[columns.emergency]",
        35,
        "columns.weight is a whole number; write a",
    ),
    ('kind = "boolean"', "", 34, 'columns.emergency.kind is missing; write kind = "category", "integer"'),
    (
        'kind = "boolean"',
        'kind = "bool"',
        35,
        '= "bool" is not known; write "category", "integer", "number", "date", "timestamp" or',
    ),
    ('kind = "boolean"', 'kind = "boolean"\nlabels = ["a"]', 36, "columns.emergency.labels is not known"),
    ('  "male",\n', '  "female",\n', 16, "columns.sex.labels[1] may not be a label: write each label once"),
    ('  "male",\n', '  "",\n', 16, "columns.sex.labels[1] may not be a label: write a printable text"),
    ('  "male",\n', '  "a\\nb",\n', 16, "columns.sex.labels[1] may not be a label: write a printable text"),
    ('  "male",\n', '  "<missing>",\n', 16, "leave it out: this cell is always there"),
    ('  "male",\n', '  "<outside>",\n', 16, "leave it out: this cell is always there"),
    ('  "male",\n', "  1,\n", 16, "columns.sex.labels[1] is a whole number; write a text"),
    ('  "female",\n  "male",\n', "", 14, "columns.sex.labels is not accepted: write a list of 1 to 2^24 texts"),
    ('labels = [\n  "female",\n  "male",\n]', 'labels = "female"', 14, "columns.sex.labels is a text; write a list"),
    ('labels = [\n  "female",\n  "male",\n]\n', "", 12, "columns.sex.labels is missing; write labels = ["),
    ("lower = 0\n", "", 18, "columns.age.lower is missing; write lower = 0"),
    ("lower = 0\n", 'lower = "0"\n', 20, "columns.age.lower is a text; write a whole number"),
    ("upper = 110", "upper = 0", 21, "columns.age.upper is not accepted: write a whole number above lower = 0"),
    ("upper = 110", "upper = 16_777_216", 21, "write at most 16777215: 2^24 values are allowed"),
    ("upper = 110", "uper = 110", 21, "columns.age.uper is not known (did you mean upper?)"),
    (
        "lower = 0\nupper = 110",
        "lower = 9007199254740993\nupper = 9007199254740995",
        20,
        "columns.age.lower is not acc",
    ),
    ("[0, 18, 65, 110]", "[1, 18, 65, 110]", 22, "columns.age.bins[0] is not accepted: begin with lower, 0"),
    ("[0, 18, 65, 110]", "[0, 18, 65]", 22, "columns.age.bins[2] is not accepted: end with upper, 110"),
    ("[0, 18, 65, 110]", "[0, 65, 18, 110]", 22, "columns.age.bins[2] is not accepted: write edges that rise"),
    (
        "[0, 18, 65, 110]",
        "[0, 18.5, 110]",
        22,
        "columns.age.bins[1] is not accepted: write a whole number from 0 to 110",
    ),
    ("[0, 18, 65, 110]", "[0]", 22, "columns.age.bins is not accepted: write at least two edges, from 0 to 110"),
    ("[0, 18, 65, 110]", '"month"', 22, "columns.age.bins is not accepted: write a list of edges"),
    ("[0, 18, 65, 110]", "18", 22, "columns.age.bins is a whole number; write a list, such as bins = [0, 18, 65, 110]"),
    ('lower = "0"', 'lower = "zero"', 25, "columns.stay.lower is no such number: write an exact number"),
    ('lower = "0"', "lower = nan", 25, "columns.stay.lower is no such number"),
    ('lower = "0"', 'lower = "-1e30"', 25, "columns.stay.lower is no such number"),
    ('lower = "0"', "lower = 2020-01-01", 25, "columns.stay.lower is a date or a time; write a number"),
    ("upper = 365", "upper = -1", 26, "columns.stay.upper is not accepted: write a number above lower = 0"),
    ("upper = 365", "upper = 365.1", 26, "whole steps of 0.25 apart; the nearest upper is 365"),
    ("upper = 365", "upper = 0.1", 26, "the nearest upper is 0.25"),
    ("step = 0.25\n", "", 23, 'columns.stay.step is missing; write step = "0.25"'),
    ("step = 0.25", "step = 0", 27, "columns.stay.step is not accepted: write an exact number from 10^-12"),
    ("step = 0.25", "step = -1", 27, "columns.stay.step is not accepted"),
    ("step = 0.25", "step = 0.00001", 27, "columns.stay.step is not accepted: write 2.18e-05 or more: 2^24 values"),
    ("upper = 365\nstep = 0.25", 'lower_ = 1\nupper = 365\nstep = "1/4"', 26, "columns.stay.lower_ is not known (did"),
    (
        '["0", 1, 3.5, "365"]',
        '["0", 1.1, "365"]',
        28,
        "bins[1] is not accepted: write a number on the grid of steps of 0.",
    ),
    ('["0", 1, 3.5, "365"]', '["0", true, "365"]', 28, "columns.stay.bins[1] is not accepted"),
    (
        '["0", 1, 3.5, "365"]',
        '[\n"0",\n1,\n1,\n"365"]',
        31,
        "columns.stay.bins[2] is not accepted: write edges that rise",
    ),
    ("lower = 2020-01-01", 'lower = "2020-01-01"', 31, "columns.admitted.lower is a text; write a day without quotes"),
    (
        "lower = 2020-01-01",
        "lower = 2020-01-01T00:00:00",
        31,
        "columns.admitted.lower has a time; write a day without one",
    ),
    ("lower = 2020-01-01", "lower = 00:00:00", 31, "columns.admitted.lower is a date or a time; write a day"),
    ("upper = 2026-12-31", "upper = 2020-01-01", 32, "write a day after lower = 2020-01-01"),
    ('bins = "month"', 'bins = "months"', 33, "write one of day, week, month, quarter, year, or a list of edges"),
    (
        'bins = "month"',
        "bins = [2020-01-01, 2027-01-01]",
        33,
        "bins[1] is not accepted: write a day from 2020-01-01 to 2026",
    ),
    ('bins = "month"', 'bins = [2020-01-01, "2021-01-01", 2026-12-31]', 33, "bins[1] is not accepted: write a day"),
)

OTHERWISE = (
    (
        '  "male",\n]\n',
        '  "male",\n]\notherwise = "other"\n',
        18,
        "columns.sex.otherwise is not accepted: write one of the labels: 'female', 'male'",
    ),
    ('  "male",\n]\n', '  "male",\n]\notherwise = 1\n', 18, "columns.sex.otherwise is not accepted: write one of"),
    ('  "male",\n]\n', ']\notherwise = "female"\n', 17, "columns.sex.otherwise is not accepted: leave it out, or"),
    (
        "bins = [0, 18, 65, 110]",
        "otherwise = 111",
        22,
        "columns.age.otherwise is not accepted: write a whole number from 0 to 110",
    ),
    ("bins = [0, 18, 65, 110]", "otherwise = false", 22, "columns.age.otherwise is not accepted: write a whole number"),
    ("bins = [0, 18, 65, 110]", "otherwise = [0]", 22, "columns.age.otherwise is not accepted: write a whole number"),
    (
        "step = 0.25",
        "step = 0.25\notherwise = 0.3",
        28,
        "columns.stay.otherwise is not accepted: write a number from 0 to 365 in steps of 0.25",
    ),
    (
        'bins = "month"',
        'otherwise = "2020-01-01"',
        33,
        "columns.admitted.otherwise is not accepted: write a day from 2020-01-01 to 2026-12-31",
    ),
    (
        'bins = "month"',
        "otherwise = 2020-01-01T00:00:00",
        33,
        "columns.admitted.otherwise is not accepted: write a day",
    ),
    (
        'kind = "boolean"',
        'kind = "boolean"\notherwise = "no"',
        36,
        "columns.emergency.otherwise is not accepted: write true or false",
    ),
    (
        'kind = "boolean"',
        'kind = "boolean"\notherwize = false',
        36,
        (
            "columns.emergency.otherwize is not known (did you mean otherwise?); "
            "the keys here are kind, means, null, otherwise"
        ),
    ),
)

MISTAKES = (*SYNTAX, *SOURCE_AND_UNIT, *COLUMNS, *OTHERWISE)
