//! Elements of a page, made from text. What stands between tags here was a name or a sentence, never markup:
//! everything goes through [`text`], and nothing else of a recording reaches a page.

use super::plain::{plain, plain_lines, xml};

/// A text from outside, in one line of at most `longest` characters.
#[must_use]
pub fn text(text: &str, longest: usize) -> String {
    xml(&plain(text, longest))
}

/// `<tag>text</tag>`.
#[must_use]
pub fn element(tag: &str, content: &str) -> String {
    format!("<{tag}>{}</{tag}>\n", text(content, 600))
}

/// A list of sentences.
#[must_use]
pub fn list(lines: &[String], most: usize) -> String {
    let mut items: String = lines
        .iter()
        .take(most)
        .map(|line| element("li", line))
        .collect();
    items.push_str(
        &more(lines.len(), most, "line").map_or(String::new(), |more| element("li", &more)),
    );
    format!("<ul>\n{items}</ul>\n")
}

/// How many of `all` things are not shown, in words, if only `most` are.
#[must_use]
pub fn more(all: usize, most: usize, thing: &str) -> Option<String> {
    let rest = all.saturating_sub(most);
    (rest > 0).then(|| {
        format!(
            "{} not shown here.",
            super::plain::counted(rest as u64, &format!("more {thing}"))
        )
    })
}

/// A table; cells are text.
#[must_use]
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let row = |tag: &str, cells: &[String]| {
        let cells: String = cells
            .iter()
            .map(|cell| format!("<{tag}>{}</{tag}>", text(cell, 600)))
            .collect();
        format!("<tr>{cells}</tr>\n")
    };
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let body: String = rows.iter().map(|cells| row("td", cells)).collect();
    format!(
        "<div class=\"wide\"><table>\n<thead>{}</thead>\n<tbody>\n{body}</tbody>\n</table></div>\n",
        row("th", &head)
    )
}

/// A story, one sentence a line; the sentence that judges stands out.
#[must_use]
pub fn story(story: &str) -> String {
    let item = |line: String| {
        let class = if line.starts_with("That is wrong") {
            " class=\"wrong\""
        } else {
            ""
        };
        format!("<li{class}>{}</li>\n", xml(&line))
    };
    let items: String = plain_lines(story, 600, 40).into_iter().map(item).collect();
    format!("<ul class=\"story\">\n{items}</ul>\n")
}

/// A block to copy from.
#[must_use]
pub fn block(lines: &str) -> String {
    let lines = plain_lines(lines, 2_000, 60).join("\n");
    format!("<pre>{}</pre>\n", xml(&lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_is_taken_as_markup() {
        let evil = "</td><script>alert(1)</script>\u{202e}\"'";
        for made in [
            element("p", evil),
            list(&[evil.to_owned()], 9),
            table(&[evil], &[vec![evil.to_owned()]]),
            story(evil),
            block(evil),
        ] {
            assert!(
                !made.contains("<script") && !made.contains("</td><s"),
                "{made}"
            );
            assert!(
                made.contains("&lt;script&gt;") && made.contains("\\u{202e}&quot;&#39;"),
                "{made}"
            );
        }
    }

    #[test]
    fn what_is_not_shown_is_counted() {
        assert_eq!(more(3, 3, "fault"), None);
        assert_eq!(
            more(5, 3, "fault").as_deref(),
            Some("2 more faults not shown here.")
        );
        assert_eq!(
            list(&["a".to_owned(), "b".to_owned()], 1),
            "<ul>\n<li>a</li>\n<li>1 more line not shown here.</li>\n</ul>\n"
        );
    }

    #[test]
    fn the_sentence_that_judges_stands_out() {
        assert_eq!(
            story("c1 wrote.\nThat is wrong: <x>."),
            "<ul class=\"story\">\n<li>c1 wrote.</li>\n<li class=\"wrong\">That is wrong: &lt;x&gt;.</li>\n</ul>\n"
        );
    }
}
