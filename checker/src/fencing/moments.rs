//! A history's invocations and returns in order: what every rule walks along.

use crate::history::Operation;

/// An invocation or a return, as a place to stand at while going through the history in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The operation's position in [`crate::history::History::operations`].
    pub op: usize,
    /// Whether it returns here; else it is invoked.
    pub returns: bool,
}

/// Every invocation and every return, by index. An unknown outcome never returns. Four bytes a moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moments {
    /// Twice the operation, and one more where it returns.
    packed: Vec<u32>,
}

/// Operations have fewer bits than a moment.
const MOST: usize = 1 << 31;

impl Moments {
    /// O(n) where nearly every index has its event, as a recorder numbers them; else O(n log n).
    pub fn of(operations: &[Operation]) -> Self {
        assert!(
            operations.len() < MOST,
            "fewer than 2^31 operations are judged at once"
        );
        Self {
            packed: placed(operations).unwrap_or_else(|| sorted(operations)),
        }
    }

    /// Those of some operations.
    pub fn only(&self, these: impl Fn(usize) -> bool) -> Self {
        let these = |&moment: &u32| these((moment / 2) as usize);
        Self {
            packed: self.packed.iter().copied().filter(these).collect(),
        }
    }

    pub fn iter(&self) -> Walk<'_> {
        Walk(self.packed.iter())
    }
}

/// Along the moments, in order.
#[derive(Clone, Debug)]
pub(crate) struct Walk<'a>(std::slice::Iter<'a, u32>);

impl Iterator for Walk<'_> {
    type Item = Moment;

    #[inline]
    fn next(&mut self) -> Option<Moment> {
        let &packed = self.0.next()?;
        Some(Moment {
            op: (packed / 2) as usize,
            returns: packed % 2 == 1,
        })
    }
}

impl<'a> IntoIterator for &'a Moments {
    type Item = Moment;
    type IntoIter = Walk<'a>;

    fn into_iter(self) -> Walk<'a> {
        self.iter()
    }
}

fn pack(op: usize, returns: bool) -> u32 {
    // There are fewer than 2^31 operations.
    op as u32 * 2 + u32::from(returns)
}

/// Each moment put at its index, and then the gaps closed; `None` where there are many gaps, or two share an index.
fn placed(operations: &[Operation]) -> Option<Vec<u32>> {
    const NOBODY: u32 = u32::MAX;
    let most = operations.len().saturating_mul(4).saturating_add(1024);
    let within = |index: u64| usize::try_from(index).ok().filter(|&place| place < most);
    // Operations are in the order of their invocations, and few are answered after the last of those.
    let last = within(operations.last()?.invoked.index)?;
    let mut packed = vec![NOBODY; last + 1];
    for (op, operation) in operations.iter().enumerate() {
        let call = (operation.invoked, false);
        let moments = [Some(call), operation.returned().map(|at| (at, true))];
        for (at, returns) in moments.into_iter().flatten() {
            let place = within(at.index)?;
            if place >= packed.len() {
                packed.resize(place + 1, NOBODY);
            }
            if packed[place] != NOBODY {
                return None;
            }
            packed[place] = pack(op, returns);
        }
    }
    packed.retain(|&moment| moment != NOBODY);
    packed.shrink_to_fit();
    Some(packed)
}

fn sorted(operations: &[Operation]) -> Vec<u32> {
    let mut packed = Vec::with_capacity(operations.len() * 2);
    for (op, operation) in operations.iter().enumerate() {
        packed.push(pack(op, false));
        packed.extend(operation.returned().map(|_| pack(op, true)));
    }
    packed.sort_by_cached_key(|&moment| {
        let operation = &operations[(moment / 2) as usize];
        let returns = moment % 2 == 1;
        let at = if returns {
            operation.completed.unwrap_or(operation.invoked)
        } else {
            operation.invoked
        };
        (at.index, returns, moment)
    });
    packed
}
