//! What every reader promises: blocks make no difference.

use fencepost_checker::history::{Format, History, Intake};

/// Reads `bytes` at once, and in blocks whose size the first byte says.
pub fn same(bytes: &[u8], format: Format) {
    let size = usize::from(bytes.first().copied().unwrap_or(0)) + 1;
    let mut intake = Intake::new(format);
    let pushed = bytes.chunks(size).try_for_each(|block| intake.push(block));
    let in_blocks = pushed.and_then(|()| intake.finish());
    match (History::read_as(bytes, format), in_blocks) {
        (Ok(whole), Ok(parts)) => assert_eq!(whole.operations, parts.operations),
        (Err(whole), Err(parts)) => assert_eq!(whole, parts),
        (whole, parts) => panic!("{whole:?} and {parts:?}"),
    }
}
