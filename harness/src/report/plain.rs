//! Text from outside, made harmless: a name of a history can never break a line, a picture or a document.
//!
//! Names come from files that anybody may have written. [`plain`] is for pictures and terminals, [`markdown`] for
//! running text and table cells, [`fenced`] for whole stories. None of them judges what a text says.

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
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(
            c,
            '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
        )
}

/// `text` for running Markdown or a table cell, one line, nothing in it interpreted.
#[must_use]
pub fn markdown(text: &str) -> String {
    let shown: Vec<char> = plain(text, 200).chars().collect();
    let mut escaped = String::new();
    for (at, &c) in shown.iter().enumerate() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // What some readers take for an address: `https://`, `www.`.
            ':' if shown.get(at + 1) == Some(&'/') => escaped.push_str("\\:"),
            '.' if shown[..at].ends_with(&['w']) => escaped.push_str("\\."),
            // Inside a line these begin nothing, and names and prose are full of them.
            '-' | ',' | ';' | ':' | '.' | '?' | '\'' | '%' | '=' | '+' | '/' | '(' | ')' => {
                escaped.push(c)
            }
            c if c.is_ascii_punctuation() => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

/// `text` as a fenced block in which nothing is interpreted; lines stay lines.
#[must_use]
pub fn fenced(language: &str, text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| plain(line, 2_000)).collect();
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
            ("![i](u)", "\\!\\[i\\](u)"),
            ("a\nb", "a\\\\nb"),
            ("*_~#", "\\*\\_\\~\\#"),
            ("kill:lock", "kill:lock"),
            ("http://a www.b", "http\\://a www\\.b"),
        ];
        for (text, escaped) in rows {
            assert_eq!(markdown(text), escaped, "{text:?}");
        }
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
