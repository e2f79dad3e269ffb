# Homebrew on Linux: put this file into a tap. packaging/templates.sh filled it in.
class Plegctl < Formula
  desc "Find what blocks the PLEG of a Kubernetes node"
  homepage "@ADDRESS@"
  version "@VERSION@"
  license "MIT"

  depends_on :linux

  on_intel do
    url "@DOWNLOAD@/plegctl-@VERSION@-x86_64-unknown-linux-gnu.tar.gz"
    sha256 "@SHA256_X86_64@"
  end
  on_arm do
    url "@DOWNLOAD@/plegctl-@VERSION@-aarch64-unknown-linux-gnu.tar.gz"
    sha256 "@SHA256_AARCH64@"
  end

  def install
    bin.install "plegctl"
    # `kubectl plegctl` starts the first link, and kubectl's completion the second one.
    bin.install_symlink "plegctl" => "kubectl-plegctl"
    bin.install_symlink "plegctl" => "kubectl_complete-plegctl"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/plegctl.bash" => "plegctl"
    zsh_completion.install "completions/_plegctl"
    fish_completion.install "completions/plegctl.fish"
  end

  test do
    assert_match "HEALTHY", shell_output("#{bin}/plegctl health -r sim:quiet")
  end
end
