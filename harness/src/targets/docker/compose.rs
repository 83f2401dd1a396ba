//! Compose files of the user's, brought up by whichever compose is installed.

use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;

use super::refusal::in_one_line;
use crate::error::HarnessError;

/// How long a project may take to be up; its images may have to be pulled.
const UP_WITHIN: Duration = Duration::from_secs(180);

/// Brings all services of `file` up under the project's name.
///
/// # Errors
/// When there is no compose, it cannot make sense of the file, or a service does not come up.
pub(super) async fn up(project: &str, file: &str, marker: &str) -> Result<(), HarnessError> {
    let program = program().await?;
    // Asked first, so that what is wrong with the file is told as that.
    let read = call(&program, project, file, &["config", "--quiet"], marker).await?;
    if !read.status.success() {
        return Err(HarnessError::Usage(format!(
            "{file}: compose cannot use it: {}",
            last_words(&read)
        )));
    }
    let up = call(&program, project, file, &["up", "--detach"], marker).await?;
    if !up.status.success() {
        return Err(HarnessError::node(
            "compose",
            format!("{file} does not come up: {}", last_words(&up)),
        ));
    }
    Ok(())
}

/// The plugin where there is one, the program of old otherwise.
async fn program() -> Result<Vec<&'static str>, HarnessError> {
    for words in [&["docker", "compose"][..], &["docker-compose"]] {
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .arg("version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if command.status().await.is_ok_and(|status| status.success()) {
            return Ok(words.to_vec());
        }
    }
    Err(HarnessError::node(
        "compose",
        "neither `docker compose` nor docker-compose is installed: either is right",
    ))
}

async fn call(
    program: &[&str],
    project: &str,
    file: &str,
    words: &[&str],
    marker: &str,
) -> Result<Output, HarnessError> {
    let mut command = Command::new(program[0]);
    command
        .args(&program[1..])
        .args(["--project-name", project, "--file", file])
        .args(words)
        // Where the file wants to know of whom it is a part.
        .env("FENCEPOST_RUN", marker)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let failed = |why: String| HarnessError::node("compose", format!("{file}: {why}"));
    match tokio::time::timeout(UP_WITHIN, command.output()).await {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed(format!("compose takes longer than {UP_WITHIN:?}"))),
    }
}

/// Its last two lines: what is wrong, and where.
fn last_words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.map(in_one_line).collect();
    match &lines[lines.len().saturating_sub(2)..] {
        [] => "it says nothing".to_owned(),
        last => last.join("; "),
    }
}
