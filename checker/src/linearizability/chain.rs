//! The exact decision of what only grows: a set, a log. No search.
//!
//! The reads of such an object show its states, and these stand in a line: each shows all that the one before it shows.
//! So all that happened stands in *layers*: the reads of the first state, what came in before the second, the reads of
//! the second, and so on. Within a layer any order is good; each of a layer comes after all of those before. There is
//! an order exactly when nothing returned before something of an earlier layer was called.

use super::Conflict;

/// An instant and the operation that sets it.
type Bound = (u64, usize);

/// What happens between two neighbouring layers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Layer {
    last_call: Option<Bound>,
    first_return: Option<Bound>,
}

impl Layer {
    /// Something of this layer was called.
    pub fn called(&mut self, at: u64, operation: usize) {
        self.last_call = self.last_call.max(Some((at, operation)));
    }

    /// Something of this layer returned, if it did.
    pub fn returned(&mut self, at: Option<u64>, operation: usize) {
        let bound = at.map(|at| (at, operation));
        self.first_return = self.first_return.into_iter().chain(bound).min();
    }
}

/// Whether layers can follow each other as they stand.
pub(crate) fn decide(
    layers: impl IntoIterator<Item = Layer>,
    why: &'static str,
) -> Result<(), Conflict> {
    let mut latest: Option<Bound> = None;
    for layer in layers {
        if let (Some((call, later)), Some((returned, earlier))) = (latest, layer.first_return)
            && returned < call
        {
            return Err(Conflict {
                operations: vec![earlier, later],
                why,
            });
        }
        latest = latest.max(layer.last_call);
    }
    Ok(())
}
