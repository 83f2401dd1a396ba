//! Why a suite cannot be used, in one line.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A suite that cannot be used: where it stands, what is wrong, what would be right.
#[derive(Debug, thiserror::Error)]
#[error("{origin}{}: {message}", line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct SuiteError {
    /// The file, or the built-in suite.
    pub origin: String,
    /// The line, from 1, where it is known.
    pub line: Option<usize>,
    /// What is wrong and what would be right, with the field's name.
    pub message: String,
}

/// The tables of a suite.
const TABLES: [&str; 7] = [
    "run", "target", "lock", "resource", "worker", "workload", "expect",
];

/// Values that are fine by themselves and do not go together: the fields to blame, and what would be right.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}: {message}", fields[0])]
pub struct Misfit {
    /// The fields, `table.key`, the one to blame first. Of those the first that a suite holds is where it is wrong.
    pub fields: Vec<&'static str>,
    /// Which of the faults it is in, from 0, if it is in one.
    pub fault: Option<usize>,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Misfit {
    pub(super) fn between(fields: &[&'static str], message: String) -> Self {
        Self {
            fields: fields.to_vec(),
            fault: None,
            message,
        }
    }

    pub(super) fn in_fault(position: usize, key: &'static str, message: String) -> Self {
        Self {
            fields: vec![key],
            fault: Some(position),
            message,
        }
    }

    /// The first of the fields that `text` holds, and where.
    fn place(&self, text: &str) -> Option<(&'static str, usize)> {
        let document = DeTable::parse(text).ok()?;
        let tables: &DeTable<'_> = document.get_ref();
        self.fields.iter().find_map(|field| {
            let (table, key) = match self.fault {
                Some(position) => {
                    let faults = tables.get("fault")?.get_ref().as_array()?;
                    (faults.get(position)?.get_ref().as_table()?, *field)
                }
                None => {
                    let (table, key) = field.split_once('.')?;
                    (tables.get(table)?.get_ref().as_table()?, key)
                }
            };
            let (key, _): (&Spanned<_>, &Spanned<DeValue<'_>>) = table.get_key_value(key)?;
            Some((*field, key.span().start))
        })
    }
}

impl SuiteError {
    pub(super) fn from_toml(error: &toml::de::Error, text: &str, origin: &str) -> Self {
        let mut reason = error
            .message()
            .split('\n')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(shortened)
            .collect::<Vec<_>>()
            .join("; ");
        let mut place = error.span().map(|span| span.start);
        if reason.contains("recurs") {
            reason = format!(
                "nested more deeply than any suite: at most {DEEPEST} tables, lists and dots deep is right"
            );
            place = place.or_else(|| deepest(text));
        }
        if reason == "missing field `kind`" {
            reason += ", as in kind = \"pause\": `fencepost list faults` names every one";
        }
        Self::at(place, reason, text, origin)
    }

    /// A table that is written as something else: a list of values would be taken for its keys in order.
    pub(super) fn of_shape(text: &str, origin: &str) -> Option<Self> {
        let document = DeTable::parse(text).ok()?;
        let tables: &DeTable<'_> = document.get_ref();
        let tables_or_not = TABLES.iter().find_map(|table| {
            let (key, value): (&Spanned<_>, &Spanned<DeValue<'_>>) =
                tables.get_key_value(*table)?;
            let reason =
                format!("{table} is a table: [{table}], and a key a line under it, is right");
            let start = Some(key.span().start);
            let misshapen = value.get_ref().as_table().is_none();
            misshapen.then(|| Self::at(start, reason, text, origin))
        });
        tables_or_not.or_else(|| {
            let (key, value): (&Spanned<_>, &Spanned<DeValue<'_>>) =
                tables.get_key_value("fault")?;
            let reason =
                "fault is a list of tables: [[fault]], and a key a line under it, is right";
            let start = Some(key.span().start);
            let of_tables = value.get_ref().as_array().is_some_and(|faults| {
                let mut faults = faults.iter();
                faults.all(|fault| fault.get_ref().as_table().is_some())
            });
            (!of_tables).then(|| Self::at(start, reason.to_owned(), text, origin))
        })
    }

    pub(super) fn of_misfit(misfit: &Misfit, text: &str, origin: &str) -> Self {
        let place = misfit.place(text);
        let field = place.map_or(misfit.fields[0], |(field, _)| field);
        let table = if misfit.fault.is_some() { "fault." } else { "" };
        let reason = format!("{table}{field}: {}", misfit.message);
        Self::at(place.map(|(_, start)| start), reason, text, origin)
    }

    /// What is found wrong with `fields` only when the suite is used: `text` is the suite's, `origin` names it.
    #[must_use]
    pub fn of_use(fields: &[&'static str], message: String, text: &str, origin: &str) -> Self {
        Self::of_misfit(&Misfit::between(fields, message), text, origin)
    }

    /// What is wrong at a byte of the text, with that line of it.
    fn at(start: Option<usize>, reason: String, text: &str, origin: &str) -> Self {
        let line = start.map(|start| {
            let before = &text.as_bytes()[..start.min(text.len())];
            before.iter().filter(|&&byte| byte == b'\n').count() + 1
        });
        let quoted = line
            .and_then(|line| text.lines().nth(line - 1))
            .map(str::trim)
            .filter(|quoted| !quoted.is_empty())
            .map(without_secret);
        let message = match quoted {
            Some(quoted) => format!(
                "`{}`: {reason}",
                quoted.chars().take(120).collect::<String>()
            ),
            None => reason,
        };
        Self {
            origin: origin.to_owned(),
            line,
            message,
        }
    }
}

/// Deeper than this no suite goes.
const DEEPEST: usize = 3;

/// Where the line begins that nests the most.
fn deepest(text: &str) -> Option<usize> {
    let mut start = 0;
    let places = text.split_inclusive('\n').map(|line| {
        let place = start;
        start += line.len();
        (line.matches(['.', '[', '{']).count(), place)
    });
    // The first of those that nest alike.
    let found = places.reduce(|most, next| if next.0 > most.0 { next } else { most });
    found.map(|(_, place)| place)
}

/// Words as long as this are cut: what is wrong is told in their neighbours.
const LONGEST_WORD: usize = 100;

/// A message without the ends of the longest words in it, which only a broken file has.
fn shortened(part: &str) -> String {
    let cut = |word: &str| {
        if word.chars().count() <= LONGEST_WORD {
            return word.to_owned();
        }
        let body = word.trim_end_matches(['`', '"', '\'', ',', ';', ':']);
        let kept: String = word.chars().take(LONGEST_WORD).collect();
        format!("{kept}…{}", &word[body.len()..])
    };
    let words: Vec<String> = part.split(' ').map(cut).collect();
    words.join(" ")
}

/// A line without its URL, login or password, if it has one: an error ends up in a log.
fn without_secret(line: &str) -> String {
    let is_secret = |key: &str| {
        let key = key.to_ascii_lowercase();
        ["password", "passwd", "secret", "url"]
            .iter()
            .any(|word| key.contains(word))
    };
    match line.split_once('=') {
        Some((key, value)) if is_secret(key) || value.contains("://") || value.contains('@') => {
            format!("{}= ...", key)
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Suite;

    fn error_of(text: &str) -> String {
        let error = Suite::parse(text, "my.toml").expect_err("no suite");
        error.to_string()
    }

    #[test]
    fn what_is_nested_without_end_is_told_with_its_line_and_what_would_be_right() {
        let right = "at most 3 tables, lists and dots deep is right";
        for line in [
            format!("{} = 1", vec!["a"; 100_000].join(".")),
            format!("a={}", "[".repeat(100_000)),
            format!("a={}", "{a=".repeat(10_000)),
            format!("[{}]", vec!["a"; 100_000].join(".")),
        ] {
            let told = error_of(&format!("name = \"x\"\n\n{line}\n[run]\nrate = 5\n"));
            assert!(told.starts_with("my.toml, line 3: `"), "{told}");
            assert!(told.ends_with(right) && told.len() < 400, "{told}");
        }
    }

    #[test]
    fn a_word_without_end_is_cut_and_what_would_be_right_is_told_all_the_same() {
        let told = error_of(&format!("[run]\n{} = 1\n", "a".repeat(100_000)));
        assert!(
            told.contains("…`, expected one of `time_limit`") && told.len() < 1_000,
            "{told}"
        );
    }
}
