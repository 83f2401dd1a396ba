//! Jepsen's formats: what they say is what comes out, however the bytes come, and what is wrong is told with its place.

use fencepost_checker::history::{
    FaultOutcome, Format, Function, History, HistoryError, Intake, Outcome,
};
use serde_json::json;

/// Reads `text` in blocks of `size` bytes.
fn in_blocks(text: &str, format: Format, size: usize) -> Result<History, HistoryError> {
    let mut intake = Intake::new(format);
    for block in text.as_bytes().chunks(size) {
        intake.push(block)?;
    }
    intake.finish()
}

fn read(text: &str) -> History {
    let format = Format::recognise(text.as_bytes()).expect("one of them");
    let history = History::read_as(text.as_bytes(), format).expect("well-formed");
    for size in [1, 2, 3, 7, 64] {
        let again = in_blocks(text, format, size).expect("well-formed");
        assert_eq!(again.operations, history.operations, "in blocks of {size}");
        assert_eq!(again.warnings, history.warnings);
        assert_eq!(again.faults, history.faults);
    }
    history
}

#[test]
fn maps_a_line_and_maps_in_a_list_are_the_same_history() {
    let maps = [
        "{:process 3, :type :invoke, :f :write, :value 4}",
        "{:process 5, :type :invoke, :f :read, :value nil}",
        "{:process 3, :type :ok, :f :write, :value 4}",
        "{:process 5, :type :ok, :f :read, :value 4}",
        "{:process 5, :type :invoke, :f :cas, :value [4 0]}",
        "{:process 5, :type :info, :f :cas, :value :timed-out, :error :timeout}",
        "{:process 6, :type :invoke, :f :txn, :value [[:r :x nil]]}",
        "{:process 6, :type :fail, :f :txn, :value [[:r :x nil]], :error [:aborted 7]}",
    ];
    let alone = read(&maps.join("\n"));
    for (begin, end) in [("[", "]"), ("(", ")"), ("; x\n[\n", "\n]\n")] {
        let listed = read(&format!("{begin}{}{end}", maps.join(" ")));
        assert_eq!(listed.operations, alone.operations);
    }
    let [write, read, cas, txn] = &alone.operations[..] else {
        panic!("four operations")
    };
    assert_eq!((write.function, write.process), (Function::Write, 3));
    assert_eq!(alone.value(write), Some(json!(4)));
    assert_eq!(
        (alone.value(read), read.outcome),
        (Some(json!(4)), Outcome::Ok)
    );
    assert_eq!(
        (alone.value(cas), cas.outcome),
        (Some(json!([4, 0])), Outcome::Unknown)
    );
    let error = |op: &fencepost_checker::history::Operation| {
        op.error.map(|error| alone.names.text(error).to_owned())
    };
    assert_eq!(error(cas).as_deref(), Some("timeout"));
    assert_eq!(error(txn).as_deref(), Some("[\"aborted\",7]"));
    assert_eq!(alone.value(txn), Some(json!([["r", "x", null]])));
    assert!(write.precedes(cas) && !write.precedes(read));
    assert!(alone.untimed);
}

#[test]
fn independent_keys_are_keys_and_a_plain_pair_is_a_value() {
    let history = read(
        "{:process 0, :type :invoke, :f :write, :value [7 3]}
         {:process 0, :type :ok, :f :write, :value [7 3]}
         {:process 0, :type :invoke, :f :cas, :value [:x [1 2]]}
         {:process 0, :type :fail, :f :cas, :value [:x [1 2]]}
         {:process 0, :type :invoke, :f :read, :value [7 nil]}
         {:process 0, :type :ok, :f :read, :value [7 3]}",
    );
    let keys: Vec<_> = (history.operations.iter())
        .map(|op| op.key.map(|key| history.names.text(key)))
        .collect();
    assert_eq!(keys, [Some("7"), Some("x"), Some("7")]);
    let values: Vec<_> = (history.operations.iter())
        .map(|op| history.value(op))
        .collect();
    assert_eq!(values, [json!(3), json!([1, 2]), json!(3)].map(Some));
    assert_eq!(
        history.warnings.len(),
        1,
        "it is said: {:?}",
        history.warnings
    );

    let plain = read("{:process 0, :type :invoke, :f :cas, :value [7 3]}");
    assert_eq!(plain.operations[0].key, None);
    assert_eq!(plain.value(&plain.operations[0]), Some(json!([7, 3])));
}

#[test]
fn a_nemesis_is_no_operation_but_a_window() {
    let history = read(
        "[{:process :nemesis, :type :info, :f :start-partition, :value nil, :time 5}
          {:process :nemesis, :type :info, :f :start-partition, :value \"n1 alone\", :time 6}
          {:process 0, :type :invoke, :f :read, :value nil, :time 7}
          {:process :nemesis, :type :info, :f :stop-partition, :value nil, :time 8}
          {:process :nemesis, :type :info, :f :stop-partition, :value :healed, :time 9}
          {:process :nemesis, :type :info, :f :kill, :value nil, :time 8}]",
    );
    assert_eq!(history.operations.len(), 1);
    let [partition, kill] = &history.faults[..] else {
        panic!("two windows")
    };
    assert_eq!(partition.begin.fault, "partition");
    assert_eq!(
        (partition.began.time, partition.ended.map(|at| at.time)),
        (5, Some(9))
    );
    assert_eq!(partition.outcome, FaultOutcome::Installed);
    assert_eq!((kill.ended, kill.outcome), (None, FaultOutcome::Unknown));
    assert_eq!(kill.began.time, 9, "a time that goes back is held still");
    assert_eq!(history.warnings.len(), 1);
}

#[test]
fn a_log_is_read_among_other_lines() {
    let history = read(
        "INFO  jepsen.core - {:started \"now\nINFO  jepsen.util - 0\t:invoke\t:write\t3\n\
         WARN  jepsen.util - something else\nINFO  jepsen.util - 1   :invoke :cas    [3 1]\n\
         INFO  jepsen.util - 0\t:info\t:write\t:timed-out\nINFO  jepsen.util - :nemesis\t:info\t:start\tnil\n\
         INFO  jepsen.util - 1\t:ok\t:cas\t[3 1]\r\n",
    );
    let [write, cas] = &history.operations[..] else {
        panic!("two operations")
    };
    assert_eq!(
        (history.value(write), write.outcome),
        (Some(json!(3)), Outcome::Unknown)
    );
    assert_eq!(
        (history.value(cas), cas.outcome),
        (Some(json!([3, 1])), Outcome::Ok)
    );
    assert_eq!(history.faults.len(), 1);
}

#[test]
fn what_is_wrong_is_told_with_line_field_and_column() {
    for (text, line, field, complaint) in [
        ("{:process 0}\n", 1, Some("type"), "is missing"),
        (
            "{:process 0 :type :begin :f :read}",
            1,
            Some("type"),
            "it must be :invoke",
        ),
        (
            "\n  {:process -1 :type :invoke :f :read}",
            2,
            Some("process"),
            "(column 3)",
        ),
        ("{:process 0 :type :invoke}", 1, Some("f"), "is missing"),
        (
            "[{:process 0 :type :invoke :f :read}\n {:process 0 :type :invoke :f :read}]",
            2,
            Some("process"),
            "still busy",
        ),
        ("{:process 0 :type\n \"a\\q\"}", 2, None, "is no escape"),
        (
            "{:process 0 :process 1 :type :ok :f :r}",
            1,
            Some("process"),
            "given twice",
        ),
        (
            "{:process 0 :time 1.5 :type :ok :f :r}",
            1,
            Some("time"),
            "whole number",
        ),
        (
            "{:process 0 :index 1 :type :invoke :f :r}\n{:process 0 :type :ok :f :r}",
            2,
            Some("index"),
            "on every one or on none",
        ),
        (
            "INFO  jepsen.util - 0\t:invoke\t:write\t[3\n",
            1,
            None,
            "not closed (column 38)",
        ),
    ] {
        let format = Format::recognise(text.as_bytes()).expect(text);
        let error = History::read_as(text.as_bytes(), format).expect_err(text);
        assert_eq!(
            (error.line, error.field.as_deref()),
            (line, field),
            "{text}: {error}"
        );
        assert!(error.message.contains(complaint), "{text}: {error}");
    }
}

#[test]
fn a_file_that_was_cut_short_is_read_as_far_as_it_goes() {
    let whole = "[{:process 0 :type :invoke :f :read :value nil}\n{:process 0 :type :ok :f :read :value 3}]";
    for end in 1..whole.len() {
        let history = History::read_as(&whole.as_bytes()[..end], Format::Edn).expect("cut");
        assert!(history.operations.len() <= 1);
        assert!(!history.warnings.is_empty(), "it is said at {end}");
    }
}
