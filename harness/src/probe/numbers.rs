//! The rules of tokens as numbers: compared, at the widths at which narrower numbers wrap or round, and huge.

use fencepost_checker::history::Token;
use fencepost_workloads::client::{Failure, Reason, Written};

use super::asked::{Asked, heard, refused, told};
use super::rules::{Answer, Rule, Tally};

/// Tokens at which a narrower number wraps or rounds; one below and one above each are asked too.
const BOUNDARIES: [(&str, &str, u64); 4] = [
    ("2-31", "tokens around 2^31 keep their order", 1 << 31),
    ("2-32", "tokens around 2^32 keep their order", 1 << 32),
    ("2-53", "tokens around 2^53 keep their order", 1 << 53),
    ("2-63", "tokens around 2^63 keep their order", 1 << 63),
];

/// How often a busy key is written, by holders that follow each other.
const BUSY: u64 = 60;
/// After a holder of a busy key was refused, so many more show that it is for good.
const MORE: u64 = 4;

/// What a stranger presents: the largest number that fits a signed column.
const HUGE: u64 = i64::MAX as u64;

pub(super) async fn as_numbers(asked: &Asked) -> Rule {
    let mut tally = Tally::default();
    let nine = asked.one("numbers", 9, "numbers 9").await;
    let ten = asked.two("numbers", 10, "numbers 10").await;
    let late = asked.one("numbers", 9, "numbers 9 again").await;
    match (nine, ten, late) {
        (Ok(_), Ok(_), late) if refused(&late) => tally.right(),
        (Ok(_), ten, late) if refused(&ten) || late.is_ok() => tally.wrong(),
        (nine, ten, late) => tally.unknown(heard(&nine).or(heard(&ten)).or(heard(&late))),
    }
    tally.rule("tokens are compared as numbers: 9 < 10")
}

pub(super) async fn widths(asked: &Asked) -> Vec<Rule> {
    let mut rules = Vec::new();
    for (width, name, boundary) in BOUNDARIES {
        rules.push(around(asked, width, name, boundary).await);
    }
    rules
}

/// Around a width: what is below is refused, what is above is accepted, and the mark is told as it is.
async fn around(asked: &Asked, width: &str, name: &'static str, boundary: u64) -> Rule {
    let key = format!("around-{width}");
    let mut wrong = Vec::new();
    for token in [boundary - 1, boundary, boundary + 1] {
        let written = asked.one(&key, token, &format!("{key} {token}")).await;
        if refused(&written) {
            wrong.push(format!("{token} was refused, although it rises"));
        }
        match written {
            Ok(Written { high_water }) => wrong.extend(other_mark(token, high_water)),
            // It may have a width, as long as it says so.
            Err(ref failure @ Failure::Fail(_)) if !refused(&written) => {
                return Rule::new(
                    name,
                    Answer::Seen,
                    format!("{token} is not taken: {}", told(failure)),
                );
            }
            Err(ref failure @ Failure::Unknown(_)) => return Rule::not_asked(name, told(failure)),
            Err(Failure::Fail(_)) => {}
        }
        // What a read gives shows in the history.
        let _ = asked.value(&key).await;
    }
    let late = asked.two(&key, boundary, &format!("{key} late")).await;
    if late.is_ok() {
        wrong.push(format!("{boundary} was accepted after {}", boundary + 1));
    } else if let (true, Some(heard)) = (wrong.is_empty(), heard(&late)) {
        return Rule::not_asked(name, heard);
    }
    match wrong.is_empty() {
        true => Rule::new(name, Answer::Kept, "4 of 4"),
        false => Rule::new(name, Answer::Broken, wrong.join("; ")),
    }
}

/// That the mark after an accepted `token` is told as another number.
fn other_mark(token: u64, mark: Option<Token>) -> Option<String> {
    let mark = mark.filter(|mark| *mark != token.into())?;
    Some(format!("the mark after {token} is told as {mark}"))
}

/// Holders follow each other on one key for a while: each is accepted, and the mark is what they present. Where a mark
/// comes from anywhere else, one stray number locks everyone out.
pub(super) async fn busy(asked: &Asked) -> Rule {
    const NAME: &str = "the mark is a token that a writer presented";
    let (mut tally, mut stray, mut refusals) = (Tally::default(), None, 0);
    let mut last = None;
    for token in 1..=BUSY {
        if refusals > MORE {
            break;
        }
        let written = asked.one("busy", token, &format!("busy {token}")).await;
        match &written {
            Ok(Written { high_water }) => match other_mark(token, *high_water) {
                None => tally.right(),
                Some(words) => {
                    tally.wrong();
                    stray = stray.or(Some(words));
                }
            },
            Err(Failure::Fail(Reason::StaleToken { high_water })) => {
                tally.wrong();
                refusals += 1;
                last = high_water.map(|mark| (token, mark));
            }
            Err(_) => tally.unknown(heard(&written)),
        }
    }
    let rule = tally.rule(NAME);
    if rule.answer != Answer::Broken {
        return rule;
    }
    let stray = stray.map(|words| format!("{words}, which nobody presented"));
    let mut detail = stray.unwrap_or_else(|| "tokens that rise were refused".to_owned());
    if let Some((token, mark)) = last {
        detail += &format!("; {refusals} holders were fenced out by {mark}, the last with {token}");
    }
    Rule::new(NAME, Answer::Broken, detail)
}

/// A stranger presents a huge token, and the rightful holders after it?
///
/// By the rule of the fence a higher token is accepted, whoever presents it: a resource that does so keeps the rule,
/// and is only as safe as those who can reach it. That is a warning, and no finding.
pub(super) async fn huge(asked: &Asked) -> Rule {
    const NAME: &str = "a huge token is not believed from anybody";
    let before = asked.one("huge", 7, "huge holder").await;
    let stranger = asked.two("huge", HUGE, "huge stranger").await;
    let mut after = Vec::new();
    for token in 8..=10 {
        after.push(asked.one("huge", token, &format!("huge {token}")).await);
    }
    if let Some(why) = after.iter().find_map(heard).or(heard(&before)) {
        return Rule::not_asked(NAME, why);
    }
    let out = after.iter().all(refused);
    let (answer, detail) = match stranger {
        Ok(_) if out => (
            Answer::Warning,
            format!(
                "it believes any token: after {HUGE} from a client that nobody granted it, holders with 8, 9 and 10 are fenced out"
            ),
        ),
        Ok(_) => (
            Answer::Broken,
            format!("{HUGE} was accepted, and then a token below it"),
        ),
        Err(Failure::Unknown(why)) => (Answer::NotAsked, why),
        Err(Failure::Fail(_)) if after.iter().any(refused) => (
            Answer::Broken,
            format!("{HUGE} was not accepted, and it locks out the holder with 8 all the same"),
        ),
        Err(Failure::Fail(reason)) => (Answer::Kept, format!("{HUGE} is not taken: {reason}")),
    };
    Rule::new(NAME, answer, detail)
}
