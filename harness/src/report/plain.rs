//! Text from outside, made harmless: a name of a history can never break a line, a picture or a document.
//!
//! Names come from files that anybody may have written. [`plain`] is for pictures and terminals, [`markdown`] for
//! running text and table cells, [`fenced`] for whole stories, [`xml`] for pages, pictures and JUnit files. None of
//! them judges what a text says.

/// `text` in one line of at most `longest` characters: what cannot be seen is written as an escape, what is too
/// long ends in an ellipsis.
#[must_use]
pub fn plain(text: &str, longest: usize) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        if is_hidden(c) {
            shown.extend(c.escape_default())
        } else {
            shown.push(c)
        }
    }
    if shown.chars().count() <= longest {
        return shown;
    }
    let mut short: String = shown.chars().take(longest.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Characters without a face of their own: controls, what reorders or hides its neighbours, and what XML forbids.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(
            c,
            '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
        )
}

/// `text` for the content of an XML or HTML element, or for an attribute in double or single quotes. Characters that
/// XML 1.0 cannot hold are dropped; lines stay lines.
#[must_use]
pub fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => escaped.push(c),
        }
    }
    escaped
}

/// The lines of `text`, each harmless and at most `longest` characters, and at most `most` of them.
#[must_use]
pub fn plain_lines(text: &str, longest: usize, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = text
        .lines()
        .take(most)
        .map(|line| plain(line, longest))
        .collect();
    let more = text.lines().skip(most).count();
    if more > 0 {
        lines.push(format!("({} more)", counted(more as u64, "line")));
    }
    lines
}

/// `text` for running Markdown or a table cell, one line, nothing in it interpreted. What Markdown takes for itself
/// only at some places is escaped there alone, so that the text stays readable as it is.
#[must_use]
pub fn markdown(text: &str) -> String {
    let shown: Vec<char> = plain(text, 400).chars().collect();
    let numbered = shown.iter().take_while(|c| c.is_ascii_digit()).count();
    let mut escaped = String::new();
    for (at, &c) in shown.iter().enumerate() {
        let word = |place: Option<usize>| {
            place
                .and_then(|place| shown.get(place))
                .is_some_and(|c| c.is_alphanumeric())
        };
        let meant = match c {
            '&' | '<' | '>' => {
                escaped.push_str(&xml(&c.to_string()));
                continue;
            }
            '\\' | '`' | '*' | '[' | ']' | '|' | '~' | '$' => true,
            '_' => !(word(at.checked_sub(1)) && word(Some(at + 1))),
            // What some readers take for an address: `https://`, `www.`.
            ':' => shown.get(at + 1) == Some(&'/'),
            '.' if at > 0 && shown[at - 1] == 'w' => true,
            // At the beginning of a bullet: a heading, a list in the list, a rule.
            '#' | '-' | '+' | '=' => at == 0,
            '.' | ')' => {
                at == numbered && numbered > 0 && shown.get(at + 1).is_none_or(|c| *c == ' ')
            }
            _ => false,
        };
        if meant {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// `text` as a fenced block in which nothing is interpreted; lines stay lines.
#[must_use]
pub fn fenced(language: &str, text: &str) -> String {
    let lines = plain_lines(text, 2_000, 60);
    let longest_run = lines
        .iter()
        .flat_map(|line| line.split(|c| c != '`'))
        .map(str::len)
        .max()
        .unwrap_or(0);
    let fence = "`".repeat(longest_run.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", lines.join("\n"))
}

/// `count` with its thing: `1 write`, `2 writes`, `12 345 writes`.
#[must_use]
pub fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", grouped(count))
}

/// A count with its thousands apart.
#[must_use]
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Seconds as a person says them: `0.4 ms`, `35 ms`, `1.52 s`.
#[must_use]
pub fn lasting(seconds: f64) -> String {
    let milliseconds = seconds * 1e3;
    match milliseconds.abs() {
        size if size >= 1e4 => format!("{seconds:.1} s"),
        size if size >= 1e3 => format!("{seconds:.2} s"),
        size if size >= 10.0 => format!("{milliseconds:.0} ms"),
        _ => format!("{milliseconds:.1} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_shown_as_escapes() {
        let rows = [
            ("a\nb", "a\\nb"),
            ("tab\t", "tab\\t"),
            ("\u{1b}[31m", "\\u{1b}[31m"),
            ("x\u{202e}y", "x\\u{202e}y"),
            ("\u{0}\u{ffff}", "\\u{0}\\u{ffff}"),
            ("Straße 锁", "Straße 锁"),
        ];
        for (text, shown) in rows {
            assert_eq!(plain(text, 80), shown, "{text:?}");
        }
    }

    #[test]
    fn long_text_ends_in_an_ellipsis_at_the_limit() {
        assert_eq!(plain("abcdef", 6), "abcdef");
        assert_eq!(plain("abcdefg", 6), "abcde…");
    }

    #[test]
    fn markdown_interprets_nothing_of_a_name() {
        let rows = [
            ("<script>", "&lt;script&gt;"),
            ("a|b", "a\\|b"),
            ("`x`", "\\`x\\`"),
            ("![i](u)", "!\\[i\\](u)"),
            ("a\nb", "a\\\\nb"),
            ("*_~#", "\\*\\_\\~#"),
            ("# h", "\\# h"),
            ("- x", "\\- x"),
            ("1. x", "1\\. x"),
            ("1.5 s", "1.5 s"),
            ("memory_mb _x_", "memory_mb \\_x\\_"),
            (
                "2026-11-29T19:09:00Z (+2 more)",
                "2026-11-29T19:09:00Z (+2 more)",
            ),
            ("valid: 3 of 4; \"a\"", "valid: 3 of 4; \"a\""),
            ("kill:lock", "kill:lock"),
            ("http://a www.b", "http\\://a www\\.b"),
        ];
        for (text, escaped) in rows {
            assert_eq!(markdown(text), escaped, "{text:?}");
        }
    }

    #[test]
    fn xml_holds_no_markup_and_nothing_that_xml_forbids() {
        assert_eq!(
            xml("</a b='\"'>&]]>\u{0}\u{1b}\u{ffff}\n"),
            "&lt;/a b=&#39;&quot;&#39;&gt;&amp;]]&gt;\n"
        );
    }

    #[test]
    fn lines_beyond_the_limit_are_counted() {
        assert_eq!(
            plain_lines("a\nb\u{7}\nc\nd", 9, 2),
            ["a", "b\\u{7}", "(2 lines more)"]
        );
    }

    #[test]
    fn a_fence_is_longer_than_any_run_of_backticks_inside() {
        assert_eq!(fenced("text", "a\nb"), "```text\na\nb\n```\n");
        assert_eq!(
            fenced("text", "x ```` y\n# z"),
            "`````text\nx ```` y\n# z\n`````\n"
        );
    }

    #[test]
    fn counts_are_grouped_and_agree_with_their_things() {
        assert_eq!(counted(1, "write"), "1 write");
        assert_eq!(counted(0, "write"), "0 writes");
        assert_eq!(counted(1_234_567, "write"), "1,234,567 writes");
        assert_eq!(grouped(999), "999");
    }

    #[test]
    fn durations_carry_a_fitting_unit() {
        for (seconds, words) in [
            (0.0, "0.0 ms"),
            (0.0004, "0.4 ms"),
            (0.035, "35 ms"),
            (1.524, "1.52 s"),
            (12.34, "12.3 s"),
        ] {
            assert_eq!(lasting(seconds), words);
        }
    }
}
