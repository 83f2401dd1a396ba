//! The order of lines without an index that stand at one time.
//!
//! A recording that counts milliseconds tells little of what happened within one of them. So lines of one time are
//! concurrent: all that begins stands before all that ends. But a process does one thing after the other, and keeps its
//! own order. Where a process ends one operation and begins the next at one time, what it ended stands before what it
//! began, and everything else overlaps both. Where several processes do so, no line of instants says only that; then
//! those ends and begins stand as they do in the file.

use hashbrown::HashMap;

/// A line of some time: its process (a fault has none), and whether it is an end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Simultaneous {
    pub process: Option<u64>,
    pub ends: bool,
}

/// Positions in `lines`, which stand at one time and in the order of the file, in the order in which they count. O(n).
pub(crate) fn in_order(lines: &[Simultaneous]) -> Vec<usize> {
    // Of each line of a process, where the next of the same process stands.
    let mut next = vec![None; lines.len()];
    let mut is_first = vec![true; lines.len()];
    let mut last: HashMap<u64, usize> = HashMap::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(process) = line.process
            && let Some(before) = last.insert(process, at)
        {
            next[before] = Some(at);
            is_first[at] = false;
        }
    }
    let begins = |&at: &usize| !lines[at].ends && is_first[at];
    let mut order: Vec<usize> = (0..lines.len()).filter(begins).collect();
    for at in (0..lines.len()).filter(|&at| lines[at].ends) {
        if let Some(next) = next[at] {
            order.extend([at, next]);
        }
    }
    order.extend((0..lines.len()).filter(|&at| lines[at].ends && next[at].is_none()));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as `1+` and `1-`: process 1 begins, ends; in the order in which they count.
    fn ordered(text: &str) -> String {
        let words: Vec<&str> = text.split(' ').collect();
        let lines: Vec<Simultaneous> = words
            .iter()
            .map(|word| Simultaneous {
                process: word[..1].parse().ok(),
                ends: word.ends_with('-'),
            })
            .collect();
        let order = in_order(&lines);
        let named: Vec<&str> = order.into_iter().map(|at| words[at]).collect();
        named.join(" ")
    }

    #[test]
    fn what_begins_stands_before_what_ends_but_a_process_keeps_its_order() {
        for (file, order) in [
            ("1- 2+", "2+ 1-"),
            ("1- 1+", "1- 1+"),
            ("1- 1+ 2+", "2+ 1- 1+"),
            ("1- 2- 1+", "1- 1+ 2-"),
            ("1+ 1- 1+ 1- 2+", "1+ 2+ 1- 1+ 1-"),
            ("f- 1- 1+ f+", "f+ 1- 1+ f-"),
            ("2- 2+ 1- 1+", "2- 2+ 1- 1+"),
        ] {
            assert_eq!(ordered(file), order, "{file}");
        }
    }
}
