"""`python -m migraphx.driver`."""

import sys

from migraphx.driver.main import main

sys.exit(main())
