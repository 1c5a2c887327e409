"""LangChain's own tests of retrievers, loaded without their package's other suites, which need pytest plugins."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import langchain_tests

_NAME = "langchain_tests.integration_tests.retrievers"


def _loaded() -> ModuleType:
    path = Path(langchain_tests.__file__).parent / "integration_tests" / "retrievers.py"
    spec = importlib.util.spec_from_file_location(_NAME, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = module
    spec.loader.exec_module(module)
    return module


RetrieversIntegrationTests = _loaded().RetrieversIntegrationTests
