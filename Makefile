# Every target makes its own environment in .venv from requirements.lock; nothing else needs to be installed.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin

.PHONY: demo test test-browser lint format bench soak attack docs clean

demo: .venv/ready
	$(BIN)/accord demo --out demo

# In two halves side by side, each of one thread: threads that wait for one another make a process crawl beside
# another that is busy.
test: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/python tests/halves.py

# The pages in Chromium: the one that is installed, or named by ACCORD_CHROMIUM. Root on Debian gets it by apt.
test-browser: .venv/ready
	@if [ -z "$$ACCORD_CHROMIUM" ] && ! command -v chromium >/dev/null && \
	   ! command -v google-chrome >/dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; fi; fi
	ACCORD_BROWSER=needed OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m browser tests/browser

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# BENCH_ARGS="TRAIN TEST --peers PYTHON" measures on the authors' MovieLens-100K files and beside other libraries.
bench: .venv/ready
	$(BIN)/python benchmarks/movielens.py $(BENCH_ARGS)

# Hours: every method killed 30 times, and an hour of epochs.
soak: .venv/ready
	$(BIN)/python benchmarks/soak.py kills
	$(BIN)/python benchmarks/soak.py memory

# Minutes of random kills, hostile folders and odd tables; prints its seed. ATTACK_ARGS="--minutes 60 --seed 1"
attack: .venv/ready
	$(BIN)/python benchmarks/attack.py $(ATTACK_ARGS)

docs: .venv/ready
	$(BIN)/python docs/build.py
	$(BIN)/mkdocs build --strict --quiet --site-dir build/docs

.venv/ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

clean:
	rm -rf .venv build demo
