"""Which meter an adapter serves."""

import pytest

from ragmeter import RagMeter
from ragmeter.adapters.langchain import RagMeterCallbackHandler
from ragmeter.adapters.llama_index import RagMeterHandler
from ragmeter.metrics import ConfigurationError


@pytest.mark.parametrize("handler", [RagMeterCallbackHandler, RagMeterHandler])
@pytest.mark.parametrize("no_meter", ["otlp", RagMeter, object()])
def test_a_handler_refuses_what_is_no_meter(handler, no_meter):
    with pytest.raises(ConfigurationError, match="pass a RagMeter object"):
        handler(no_meter)
