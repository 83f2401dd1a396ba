//! The toxics that faults use, in our words, and what each is called on the wire.

use std::fmt;

/// The direction that a toxic sits on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// From the client to the server: requests.
    Up,
    /// From the server to the client: replies.
    Down,
    /// Both, as two toxics.
    Both,
}

impl Stream {
    /// Toxiproxy's words for it, upstream first.
    pub(super) fn words(self) -> &'static [&'static str] {
        match self {
            Stream::Up => &["upstream"],
            Stream::Down => &["downstream"],
            Stream::Both => &["upstream", "downstream"],
        }
    }
}

/// Something to do to a link. The conformance test of the fault proxy says, as sentences, what a client sees of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Toxic {
    /// Bytes vanish in silence; removing it ends the connections under it. Downstream alone it is a lost reply.
    Hole {
        /// Where.
        stream: Stream,
    },
    /// Bytes vanish, and the connection closes after a while.
    Timeout {
        /// Milliseconds until it closes, at least 1 (0 would be a hole).
        ms: u32,
        /// Where.
        stream: Stream,
    },
    /// Every byte comes later. An hour is a stall: removed, it delivers all it held.
    Latency {
        /// Milliseconds.
        ms: u32,
        /// Plus or minus so many milliseconds.
        jitter_ms: u32,
        /// Where.
        stream: Stream,
    },
    /// Fewer bytes a second; 0 is a stall.
    Bandwidth {
        /// Kilobytes (of 1000 bytes) a second.
        kilobytes_per_second: u32,
        /// Where.
        stream: Stream,
    },
    /// The connection is reset once bytes flow on it.
    ResetPeer {
        /// Milliseconds from the first bytes to the reset.
        ms: u32,
        /// Where bytes must flow.
        stream: Stream,
    },
    /// The end of the stream comes later.
    SlowClose {
        /// Milliseconds.
        ms: u32,
        /// Where.
        stream: Stream,
    },
    /// The connection closes after so many bytes.
    LimitData {
        /// Bytes.
        bytes: u32,
        /// Where.
        stream: Stream,
    },
}

impl Toxic {
    /// A hole in that direction.
    #[must_use]
    pub fn hole(stream: Stream) -> Toxic {
        Toxic::Hole { stream }
    }

    /// Where it sits.
    #[must_use]
    pub fn stream(self) -> Stream {
        match self {
            Toxic::Hole { stream }
            | Toxic::Timeout { stream, .. }
            | Toxic::Latency { stream, .. }
            | Toxic::Bandwidth { stream, .. }
            | Toxic::ResetPeer { stream, .. }
            | Toxic::SlowClose { stream, .. }
            | Toxic::LimitData { stream, .. } => stream,
        }
    }

    /// Toxiproxy's type.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Toxic::Hole { .. } | Toxic::Timeout { .. } => "timeout",
            Toxic::Latency { .. } => "latency",
            Toxic::Bandwidth { .. } => "bandwidth",
            Toxic::ResetPeer { .. } => "reset_peer",
            Toxic::SlowClose { .. } => "slow_close",
            Toxic::LimitData { .. } => "limit_data",
        }
    }

    /// Toxiproxy's attributes.
    pub(super) fn attributes(self) -> Vec<(&'static str, u32)> {
        match self {
            Toxic::Hole { .. } => vec![("timeout", 0)],
            Toxic::Timeout { ms, .. } | Toxic::ResetPeer { ms, .. } => vec![("timeout", ms)],
            Toxic::Latency { ms, jitter_ms, .. } => vec![("latency", ms), ("jitter", jitter_ms)],
            Toxic::Bandwidth {
                kilobytes_per_second,
                ..
            } => vec![("rate", kilobytes_per_second)],
            Toxic::SlowClose { ms, .. } => vec![("delay", ms)],
            Toxic::LimitData { bytes, .. } => vec![("bytes", bytes)],
        }
    }
}

impl fmt::Display for Toxic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.kind())?;
        for (name, value) in self.attributes() {
            write!(out, " {name}={value}")?;
        }
        write!(out, " {}", self.stream().words().join("+"))
    }
}
