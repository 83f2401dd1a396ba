//! The one binary. See the library for everything.

fn main() -> std::process::ExitCode {
    fencepost::main()
}
