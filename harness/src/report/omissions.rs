//! What a timeline could not draw, or not in full, counted and put into sentences for its caption.

use super::plain::{counted, grouped};

/// Marks of one kind nearer than this to the one before are left out, in pixels; so are bars that end as near.
pub const NEAREST: f64 = 3.0;

/// What was not drawn, or not in full.
#[derive(Clone, Copy, Debug, Default)]
pub struct Omissions {
    /// Accepted writes.
    pub accepted: u64,
    /// Of those, the ones too near to another.
    pub accepted_left_out: u64,
    /// Refused and unknown writes too near to another.
    pub other_left_out: u64,
    /// Bars too near to another.
    pub bars_left_out: u64,
    /// Bars too narrow for their token.
    pub without_number: u64,
    /// Rules whose rings have no room for a name.
    pub without_name: u64,
}

impl Omissions {
    /// One sentence for each kind of thing that is not drawn, after how to read the marks.
    #[must_use]
    pub fn notes(&self, lanes_left_out: usize, kinds_left_out: usize) -> Vec<String> {
        let mut notes = vec![
            "A mark stands where the answer arrived; unknown writes that never had one, where they were invoked.".to_owned(),
        ];
        let mut left_out = |count: u64, text: String| {
            if count > 0 {
                notes.push(text);
            }
        };
        let near = format!("nearer than {NEAREST} px to a drawn one");
        let out = self.accepted_left_out;
        left_out(
            out,
            format!(
                "{} of {} accepted writes are left out: {near}.",
                grouped(out),
                grouped(self.accepted)
            ),
        );
        let out = self.other_left_out;
        left_out(
            out,
            format!(
                "{} left out: {near}.",
                counted(out, "refused or unknown write") + if out == 1 { " is" } else { " are" }
            ),
        );
        let out = self.bars_left_out;
        left_out(
            out,
            format!(
                "{} left out: they end {near}.",
                counted(out, "bar") + if out == 1 { " is" } else { " are" }
            ),
        );
        let out = self.without_number;
        left_out(
            out,
            format!("{} found no room for a number.", counted(out, "bar")),
        );
        let out = self.without_name;
        left_out(
            out,
            format!(
                "{} found no room for a name.",
                counted(out, "kind of finding")
            ),
        );
        let out = lanes_left_out as u64;
        left_out(
            out,
            format!(
                "{} with the fewest refusals and grants {} left out.",
                counted(out, "lane"),
                if out == 1 { "is" } else { "are" }
            ),
        );
        let out = kinds_left_out as u64;
        left_out(
            out,
            format!("{} found no row above.", counted(out, "more kind of fault")),
        );
        notes
    }
}
