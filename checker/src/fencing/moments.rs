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

/// Puts each moment at its index, while somebody goes through the operations for another reason as well: they are large.
#[derive(Debug)]
pub(crate) struct Placing<'a> {
    operations: &'a [Operation],
    packed: Vec<u32>,
    /// There are many gaps, or two share an index.
    gave_up: bool,
}

/// No moment has this index.
const NOBODY: u32 = u32::MAX;

impl<'a> Placing<'a> {
    pub fn new(operations: &'a [Operation]) -> Self {
        assert!(
            operations.len() < MOST,
            "fewer than 2^31 operations are judged at once"
        );
        let mut placing = Self {
            operations,
            packed: Vec::new(),
            gave_up: false,
        };
        // Operations are in the order of their invocations, and few are answered after the last of those.
        let last = operations.last();
        match last.and_then(|last| placing.within(last.invoked.index)) {
            Some(last) => placing.packed = vec![NOBODY; last + 1],
            None => placing.gave_up = true,
        }
        placing
    }

    fn within(&self, index: u64) -> Option<usize> {
        let most = self.operations.len().saturating_mul(4).saturating_add(1024);
        usize::try_from(index).ok().filter(|&place| place < most)
    }

    /// Takes the next operation.
    #[inline]
    pub fn note(&mut self, op: usize) {
        if self.gave_up {
            return;
        }
        let operation = &self.operations[op];
        self.put(operation.invoked.index, pack(op, false));
        if let Some(returned) = operation.returned() {
            self.put(returned.index, pack(op, true));
        }
    }

    #[inline]
    fn put(&mut self, index: u64, moment: u32) {
        let Some(place) = self.within(index) else {
            self.gave_up = true;
            return;
        };
        if place >= self.packed.len() {
            self.packed.resize(place + 1, NOBODY);
        }
        let before = std::mem::replace(&mut self.packed[place], moment);
        self.gave_up |= before != NOBODY;
    }

    /// Closes the gaps. O(n) where nearly every index has its event, as a recorder numbers them; else O(n log n).
    pub fn finish(self) -> Moments {
        let mut packed = self.packed;
        if self.gave_up {
            packed = sorted(self.operations);
        } else {
            packed.retain(|&moment| moment != NOBODY);
            packed.shrink_to_fit();
        }
        Moments { packed }
    }
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
