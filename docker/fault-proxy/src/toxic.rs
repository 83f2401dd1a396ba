//! What a toxic is told to do: its name, its stream, its type and numbers, as JSON says them.
//!
//! How a toxic does it is in `stage`. Numbers are whole and not negative; unknown attributes are ignored.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::failure::Failure;

/// The direction that a toxic sits on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stream {
    /// From the client to the server.
    Upstream,
    /// From the server to the client.
    Downstream,
}

impl Stream {
    fn parse(text: &str) -> Result<Stream, Failure> {
        match text.to_ascii_lowercase().as_str() {
            "upstream" => Ok(Stream::Upstream),
            "downstream" => Ok(Stream::Downstream),
            _ => Err(Failure::InvalidStream),
        }
    }

    /// The word that JSON and metrics use.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Stream::Upstream => "upstream",
            Stream::Downstream => "downstream",
        }
    }
}

/// Delays every byte by `latency` plus or minus `jitter`, both in milliseconds.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Latency {
    pub(crate) latency: u64,
    pub(crate) jitter: u64,
}

/// Lets `rate` kilobytes (of 1000 bytes) a second through; 0 holds everything.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Bandwidth {
    pub(crate) rate: u64,
}

/// Swallows all bytes; closes the connection `timeout` milliseconds after it took hold, or never if that is 0.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Timeout {
    pub(crate) timeout: u64,
}

/// Resets the connection `timeout` milliseconds after the first bytes arrived.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ResetPeer {
    pub(crate) timeout: u64,
}

/// Holds the end of the stream back for `delay` milliseconds.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SlowClose {
    pub(crate) delay: u64,
}

/// Cuts the stream into pieces of `average_size` plus or minus `size_variation` bytes, `delay` microseconds apart.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Slicer {
    pub(crate) average_size: u64,
    pub(crate) size_variation: u64,
    pub(crate) delay: u64,
}

/// Closes the connection after `bytes` bytes went through.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LimitData {
    pub(crate) bytes: u64,
}

/// The type of a toxic with its numbers.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", content = "attributes", rename_all = "snake_case")]
pub(crate) enum Kind {
    Latency(Latency),
    Bandwidth(Bandwidth),
    Timeout(Timeout),
    ResetPeer(ResetPeer),
    SlowClose(SlowClose),
    Slicer(Slicer),
    LimitData(LimitData),
}

/// The types that `POST …/toxics` knows.
const TYPES: [&str; 7] = [
    "latency",
    "bandwidth",
    "timeout",
    "reset_peer",
    "slow_close",
    "slicer",
    "limit_data",
];

impl Kind {
    fn parse(kind: &str, attributes: Map<String, Value>) -> Result<Kind, Failure> {
        if !TYPES.contains(&kind) {
            return Err(Failure::InvalidToxicType);
        }
        serde_json::from_value(serde_json::json!({"type": kind, "attributes": attributes}))
            .map_err(|error| Failure::BadRequestBody(error.to_string()))
    }

    /// The same type with the given attributes changed and the others kept.
    fn changed(self, attributes: Map<String, Value>) -> Result<Kind, Failure> {
        let now = serde_json::to_value(self)
            .map_err(|error| Failure::Internal(format!("write a toxic: {error}")))?;
        let mut merged = now["attributes"].as_object().cloned().unwrap_or_default();
        merged.extend(attributes);
        Kind::parse(now["type"].as_str().unwrap_or_default(), merged)
    }
}

/// A toxic as the API shows it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Toxic {
    /// Unique within its proxy, both streams together.
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) kind: Kind,
    pub(crate) stream: Stream,
    /// The chance, drawn once a connection, that the toxic applies to it.
    pub(crate) toxicity: f32,
}

/// A toxic as a client asks for it.
#[derive(Deserialize)]
struct Wanted {
    #[serde(default)]
    name: String,
    #[serde(default, rename = "type")]
    kind: String,
    stream: Option<String>,
    toxicity: Option<f32>,
    attributes: Option<Map<String, Value>>,
}

/// What a client may change about a toxic.
#[derive(Deserialize)]
struct Change {
    toxicity: Option<f32>,
    attributes: Option<Map<String, Value>>,
}

fn decoded<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|error| Failure::BadRequestBody(error.to_string()))
}

impl Toxic {
    /// Reads a toxic from a request. Stream defaults to downstream, toxicity to 1, the name to `TYPE_STREAM`.
    ///
    /// # Errors
    ///
    /// The body is no JSON of that shape, or the stream or the type is unknown.
    pub(crate) fn from_request(body: &[u8]) -> Result<Toxic, Failure> {
        let wanted: Wanted = decoded(body)?;
        let stream = match &wanted.stream {
            Some(word) => Stream::parse(word)?,
            None => Stream::Downstream,
        };
        let kind = Kind::parse(&wanted.kind, wanted.attributes.unwrap_or_default())?;
        let name = if wanted.name.is_empty() {
            format!("{}_{}", wanted.kind, stream.word())
        } else {
            wanted.name
        };
        Ok(Toxic {
            name,
            kind,
            stream,
            toxicity: wanted.toxicity.unwrap_or(1.0),
        })
    }

    /// This toxic with what the request changes; what it does not name stays.
    ///
    /// # Errors
    ///
    /// The body is no JSON of that shape.
    pub(crate) fn changed(&self, body: &[u8]) -> Result<Toxic, Failure> {
        let change: Change = decoded(body)?;
        Ok(Toxic {
            kind: self.kind.changed(change.attributes.unwrap_or_default())?,
            toxicity: change.toxicity.unwrap_or(self.toxicity),
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toxic_without_name_and_stream_gets_the_defaults() {
        let toxic = Toxic::from_request(br#"{"type":"latency","attributes":{"latency":5}}"#)
            .expect("a plain latency is a toxic");
        assert_eq!(
            serde_json::to_value(&toxic).expect("a toxic is JSON"),
            serde_json::json!({
                "name": "latency_downstream", "type": "latency", "stream": "downstream",
                "toxicity": 1.0, "attributes": {"latency": 5, "jitter": 0}
            })
        );
    }

    #[test]
    fn a_change_keeps_what_it_does_not_name() {
        let toxic = Toxic::from_request(
            br#"{"type":"latency","toxicity":0.5,"attributes":{"latency":5,"jitter":2}}"#,
        )
        .expect("a toxic");
        let changed = toxic
            .changed(br#"{"attributes":{"latency":9}}"#)
            .expect("a change");
        assert_eq!(
            changed.kind,
            Kind::Latency(Latency {
                latency: 9,
                jitter: 2
            })
        );
        assert_eq!(changed.toxicity, 0.5);
    }

    #[test]
    fn each_bad_request_is_refused_in_its_own_words() {
        for (body, says) in [
            (&b"nonsense"[..], "bad request body"),
            (br#"{"type":"noisy"}"#, "invalid toxic type"),
            (
                br#"{"type":"latency","stream":"sideways"}"#,
                "stream was invalid",
            ),
            (
                br#"{"type":"latency","attributes":{"latency":-1}}"#,
                "bad request body",
            ),
            (
                br#"{"type":"latency","attributes":{"latency":"5"}}"#,
                "bad request body",
            ),
        ] {
            let failure = Toxic::from_request(body).expect_err("refused");
            assert!(failure.to_string().starts_with(says), "{failure}");
            assert_eq!(failure.status().as_u16(), 400);
        }
    }
}
