//! One operation in a few words: what was asked and what was answered.

use fencepost_checker::history::{Function, History, Operation, Outcome};

use super::palette::{Answer, is_write};
use super::plain::plain;

/// `granted 41`, `write c1-17 under 41: ACCEPTED`, `renew 41: failed, not-held`. Names are made harmless.
#[must_use]
pub fn sentence(operation: &Operation, history: &History) -> String {
    let token = operation
        .token
        .map_or("no token".to_owned(), |token| token.to_string());
    if operation.function == Function::Acquire && operation.outcome == Outcome::Ok {
        return format!("granted {token}");
    }
    let value = history
        .value(operation)
        .map_or(String::new(), |value| match value {
            serde_json::Value::String(text) => format!(" {}", plain(&text, 18)),
            other => format!(" {}", plain(&other.to_string(), 18)),
        });
    let asked = match operation.function {
        Function::Acquire => "acquire".to_owned(),
        Function::Renew => format!("renew {token}"),
        Function::Release => format!("release {token}"),
        Function::Read => format!("read{value}"),
        Function::Write => format!("write{value} under {token}"),
        Function::Append => format!("append{value} under {token}"),
        Function::Cas => format!("compare-and-set under {token}"),
        Function::Other(word) => plain(history.names.text(word), 18),
    };
    format!("{asked}: {}", answered(operation, history))
}

fn answered(operation: &Operation, history: &History) -> String {
    match (Answer::of(operation, history), operation.high_water) {
        (Answer::Ok, _) if is_write(operation) => "ACCEPTED".to_owned(),
        (Answer::Ok, _) => "ok".to_owned(),
        (Answer::Refused, Some(high_water)) => format!("refused, high water {high_water}"),
        (Answer::Refused, None) => "refused".to_owned(),
        (Answer::Failed, _) => operation.error.map_or("failed".to_owned(), |error| {
            format!("failed, {}", plain(history.names.text(error), 24))
        }),
        (Answer::Unknown, _) => "outcome unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::Recording;
    use super::*;
    use serde_json::json;

    #[test]
    fn operations_read_as_people_would_say_them() {
        let mut recording = Recording::default();
        recording
            .grant("c1", "s", 41, 0, 1)
            .write("c1", "s", 41, 2, 3, "ok")
            .write("c1", "s", 41, 4, 5, "refused")
            .write("c1", "s", 41, 6, 7, "info");
        recording
            .acquire("c1", "s", 8, 9, "fail")
            .release("c1", "s", 41, 10, 11, "ok");
        recording.operation(
            "c1",
            12,
            json!({"f": "read", "key": "s"}),
            Some((13, "ok", json!({"value": null}))),
        );
        recording.operation(
            "c1",
            14,
            json!({"f": "write", "key": "s", "value": [1]}),
            None,
        );
        recording.operation("c1", 16, json!({"f": "dance\n"}), None);
        let history = recording.history();
        let sentences: Vec<String> = history
            .operations
            .iter()
            .map(|operation| sentence(operation, &history))
            .collect();
        assert_eq!(
            sentences,
            [
                "granted 41",
                "write c1-2 under 41: ACCEPTED",
                "write c1-4 under 41: refused, high water 42",
                "write c1-6 under 41: outcome unknown",
                "acquire: failed, held",
                "release 41: ok",
                "read null: ok",
                "write [1] under no token: outcome unknown",
                "dance\\n: outcome unknown"
            ]
        );
    }
}
