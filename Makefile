# The recipes are the scripts, so that a machine without make loses nothing.
.PHONY: demo test soak setup bench clean

demo:
	scripts/demo
test:
	scripts/test
soak:
	scripts/soak
setup:
	scripts/setup
bench:
	scripts/bench
	scripts/bench-engine
	scripts/bench-doctor
	scripts/bench-provision
clean:
	rm -rf .venv .venvs build dist
